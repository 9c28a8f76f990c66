//! Checks the expressions of ValidatingAdmissionPolicies against the kinds that they are about, and warns in their
//! status of what does not fit.
//!
//! - **Promise**: the status of a policy names its generation and, for each expression of a validation and of its
//!   message, what would go wrong with objects of each kind that the policy names without wildcards. A warning changes
//!   nothing about how the policy is applied.
//! - **Watches** ValidatingAdmissionPolicies; asks the API server which resources it serves, and for their schemas.
//!   **Writes** `status.observedGeneration` and `status.typeChecking`, by server-side apply.
//! - Upstream: `pkg/controller/validatingadmissionpolicystatus`, `k8s.io/apiserver/pkg/admission/plugin/policy`. What
//!   differs: schemas of built-in kinds come from the API server, too, not from a copy; names of object types in
//!   warnings end in a number that is the same each time.

mod kinds;
pub mod plan;
mod policy;
mod schema;
mod sync;
#[cfg(test)]
mod tests;
pub mod triggers;
mod variables;

use std::sync::Arc;

use flyball_api::ValidatingAdmissionPolicy;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the queue, and the one under which the controller owns what it applies.
pub const NAME: &str = "validatingadmissionpolicy-status";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let queue = tasks.queue(NAME);
    let policies = cx.informer::<ValidatingAdmissionPolicy>();
    tasks.feed(&policies, &queue, triggers::policy_changed);
    let workers = cx.config.validating_admission_policy_status_controller.concurrent_policy_syncs;
    let workers = usize::try_from(workers).unwrap_or_default().max(1);
    tasks.workers(&queue, workers, Arc::new(sync::Controller { cx, policies }));
    Ok(())
}
