//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;
use flyball_runtime::Plan;
use serde_json::Value;

use super::plan::View;

/// The status that a plan writes.
pub(super) fn written(plan: &Plan) -> Option<PodDisruptionBudgetStatus> {
    let mut body = plan.status.as_ref()?.body()?;
    serde_json::from_value(body.get_mut("status").map(Value::take)?).ok()
}

/// Checks a plan against its view.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let Some(status) = written(plan) else { return Ok(()) };
    let allowed = status.disruptions_allowed;
    let condition = status.conditions.iter().find(|condition| condition.type_ == "DisruptionAllowed");
    let mut rules = vec![
        ("the number of allowed disruptions is not negative", allowed >= 0),
        (
            "the condition agrees with the number",
            condition.is_some_and(|found| found.is_true() == (allowed > 0)),
        ),
    ];
    match view.required() {
        Err(_) => rules.push(("a budget whose status cannot be computed allows no disruption", allowed == 0)),
        Ok(required) => {
            let running = view.pods.iter().filter(|pod| !pod.metadata.is_deleting());
            let ready = running.clone().filter(|pod| pod.is_ready()).count();
            let healthy = usize::try_from(status.current_healthy).unwrap_or(usize::MAX);
            let is_running = |name: &str| running.clone().any(|pod| pod.metadata.name == name);
            let known = &view.budget.status.disrupted_pods;
            rules.extend([
                (
                    "the allowed disruptions leave as many pods as are required",
                    allowed == 0 || status.current_healthy - allowed >= required.desired,
                ),
                ("without expected pods no disruption is allowed", required.expected > 0 || allowed == 0),
                ("only running and ready pods are healthy", healthy <= ready),
                (
                    "only running pods are disrupted",
                    status.disrupted_pods.keys().all(|name| is_running(name)),
                ),
                (
                    "only evicted pods are disrupted",
                    status.disrupted_pods.iter().all(|(name, since)| known.get(name) == Some(since)),
                ),
                (
                    "the status is that of this generation",
                    status.observed_generation == view.budget.metadata.generation,
                ),
            ]);
        }
    }
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {status:?}")))
}
