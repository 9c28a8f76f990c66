//! The status of a budget. Pure.

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;
use flyball_api::{PodDisruptionBudget, Timestamp};

use super::census::Census;
use super::demand::Required;
use super::plan::View;

const ALLOWED: &str = "DisruptionAllowed";
const SUFFICIENT: &str = "SufficientPods";
const INSUFFICIENT: &str = "InsufficientPods";
const FAILED: &str = "SyncFailed";

/// The new status; `None` if it has not changed.
pub fn status(view: &View<'_>, census: &Census<'_>, required: Required) -> Option<PodDisruptionBudgetStatus> {
    let known = &view.budget.status;
    let new = PodDisruptionBudgetStatus {
        observed_generation: view.budget.metadata.generation,
        disrupted_pods: census.disrupted.clone(),
        disruptions_allowed: required.allowed(census.healthy),
        current_healthy: census.healthy,
        desired_healthy: required.desired,
        expected_pods: required.expected,
        conditions: known.conditions.clone(),
    };
    // As upstream: the observed generation of the condition is not compared.
    if new == *known && has_condition(known) {
        return None;
    }
    let (status, reason) = condition(new.disruptions_allowed);
    Some(with_condition(new, status, reason, "", view.now))
}

fn condition(allowed: i32) -> (&'static str, &'static str) {
    if allowed > 0 { (TRUE, SUFFICIENT) } else { (FALSE, INSUFFICIENT) }
}

fn has_condition(status: &PodDisruptionBudgetStatus) -> bool {
    let current = condition::find(&status.conditions, ALLOWED);
    current.is_some_and(|current| {
        (current.status.as_str(), current.reason.as_str()) == condition(status.disruptions_allowed)
    })
}

/// The status of a budget whose status cannot be computed: no disruption is allowed. `None` if it has not changed.
pub fn fail_safe(
    budget: &PodDisruptionBudget,
    problem: &str,
    now: Timestamp,
) -> Option<PodDisruptionBudgetStatus> {
    let new = PodDisruptionBudgetStatus { disruptions_allowed: 0, ..budget.status.clone() };
    let new = with_condition(new, FALSE, FAILED, problem, now);
    (new != budget.status).then_some(new)
}

fn with_condition(
    mut status: PodDisruptionBudgetStatus,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let new = Condition {
        type_: ALLOWED.into(),
        status: value.into(),
        observed_generation: status.observed_generation,
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    condition::set(&mut status.conditions, new);
    status
}
