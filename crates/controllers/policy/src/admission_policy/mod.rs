//! Type-checks the expressions of ValidatingAdmissionPolicies against the kinds that they name, and writes warnings into
//! their status.
//!
//! - **Promise**: the status of a policy has its generation and, for each expression of a validation and of its message,
//!   the problems with each kind that the policy names without wildcards. Warnings do not change how the policy is applied.
//! - **Watches** ValidatingAdmissionPolicies; reads discovery and OpenAPI schemas.
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
mod types;
mod variables;

use std::sync::Arc;

use flyball_api::ValidatingAdmissionPolicy;
use flyball_runtime::{Context, StartError, Tasks};

/// The name of the queue, and the field manager of the status.
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
