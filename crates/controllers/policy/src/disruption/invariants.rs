//! What must hold for everything said about a budget; for tables, properties and the simulator.

use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;

use super::demand::Quota;
use super::plan::View;

/// Checks the status that a judged budget is given.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, quota: Quota, status: &PodDisruptionBudgetStatus) -> Result<(), String> {
    let living = view.pods.iter().filter(|pod| !pod.metadata.is_deleting());
    let ready = living.clone().filter(|pod| pod.is_ready()).count();
    let healthy = usize::try_from(status.current_healthy).unwrap_or(usize::MAX);
    let is_living = |name: &str| living.clone().any(|pod| pod.metadata.name == name);
    let allowed = status.disruptions_allowed;
    let rules = [
        ("never a negative allowance", allowed >= 0),
        (
            "who may go leaves as many as must stay",
            allowed == 0 || status.current_healthy - allowed >= quota.desired,
        ),
        ("nobody may go while nobody is expected", quota.expected > 0 || allowed == 0),
        ("only living and ready pods are healthy", healthy <= ready),
        ("only living pods are awaited to go", status.disrupted_pods.keys().all(|name| is_living(name))),
        (
            "nobody is awaited whose eviction was not allowed",
            status
                .disrupted_pods
                .iter()
                .all(|(name, since)| view.budget.status.disrupted_pods.get(name) == Some(since)),
        ),
        ("it is about this generation", status.observed_generation == view.budget.metadata.generation),
        (
            "the condition says what the number says",
            status
                .conditions
                .iter()
                .any(|said| said.type_ == "DisruptionAllowed" && said.is_true() == (allowed > 0)),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {status:?}")))
}
