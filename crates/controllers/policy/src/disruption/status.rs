//! What is said about a budget. Pure.

use flyball_api::condition::{self, Condition, FALSE, TRUE};
use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;
use flyball_api::{PodDisruptionBudget, Timestamp};

use super::demand::Quota;
use super::plan::{Census, View};

const ALLOWED: &str = "DisruptionAllowed";
const SUFFICIENT: &str = "SufficientPods";
const INSUFFICIENT: &str = "InsufficientPods";
const FAILED: &str = "SyncFailed";

/// The status of a budget that could be judged; none if it says nothing new.
pub fn status(view: &View<'_>, census: &Census<'_>, quota: Quota) -> Option<PodDisruptionBudgetStatus> {
    let known = &view.budget.status;
    let new = PodDisruptionBudgetStatus {
        observed_generation: view.budget.metadata.generation,
        disrupted_pods: census.disrupted.clone(),
        disruptions_allowed: allowed(census.healthy, quota),
        current_healthy: census.healthy,
        desired_healthy: quota.desired,
        expected_pods: quota.expected,
        conditions: known.conditions.clone(),
    };
    // As upstream: a condition is right if its status and reason are, whatever generation it was observed for.
    if new == *known && is_right(known) {
        return None;
    }
    let (status, reason) = verdict(new.disruptions_allowed);
    Some(with_condition(new, status, reason, "", view.now))
}

/// How many pods may go. None while no pod is expected: when the first come, they are safe until they are counted.
fn allowed(healthy: i32, quota: Quota) -> i32 {
    if quota.expected <= 0 { 0 } else { healthy.saturating_sub(quota.desired).max(0) }
}

fn verdict(allowed: i32) -> (&'static str, &'static str) {
    if allowed > 0 { (TRUE, SUFFICIENT) } else { (FALSE, INSUFFICIENT) }
}

fn is_right(status: &PodDisruptionBudgetStatus) -> bool {
    let said = condition::find(&status.conditions, ALLOWED);
    said.is_some_and(|said| {
        (said.status.as_str(), said.reason.as_str()) == verdict(status.disruptions_allowed)
    })
}

/// The status of a budget that could not be judged: nobody may go. None if it says nothing new.
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
    holds: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let said = Condition {
        type_: ALLOWED.into(),
        status: holds.into(),
        observed_generation: status.observed_generation,
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    condition::set(&mut status.conditions, said);
    status
}
