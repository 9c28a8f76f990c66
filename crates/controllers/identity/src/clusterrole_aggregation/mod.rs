//! Sets the rules of aggregated ClusterRoles to those of the roles that their selectors match.
//!
//! - **Promise**: a role with an aggregation rule allows exactly what the matching roles allow together, each rule
//!   once, in the order of selectors and names. Other changes to its rules are undone.
//! - **Watches** ClusterRoles. **Writes** the rules of those that aggregate, by server-side apply.
//! - Upstream: `pkg/controller/clusterroleaggregation`. What differs: only the roles that select a changed role are
//!   synced, not all aggregated roles; so a role that selects nobody and has rules of its own is not patched again after
//!   changes of others.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;

use std::sync::Arc;

use flyball_api::ClusterRole;
use flyball_cache::Index;
use flyball_runtime::{Context, StartError, Tasks};

/// The name under which the controller runs, and under which it owns the rules it applies.
pub const NAME: &str = "clusterrole-aggregation-controller";

const WORKERS: usize = 5;

/// The aggregated roles, all under one key.
pub(crate) const AGGREGATED: Index<ClusterRole> = Index::new("aggregated", |role, emit| {
    if role.aggregation_rule.is_some() {
        emit("");
    }
});

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue("ClusterRoleAggregator");
    let roles = cx.informer::<ClusterRole>();
    roles.index(&AGGREGATED);
    let store = roles.store().clone();
    tasks.feed(&roles, &queue, move |change| triggers::role_changed(change, &store.by(&AGGREGATED, "")));
    tasks.workers(&queue, WORKERS, Arc::new(sync::Controller { cx, roles }));
    Ok(())
}
