//! The status of a budget, and the events about it. Pure.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::pod_disruption_budget::PodDisruptionBudgetStatus;
use flyball_api::{Object, PodDisruptionBudget, Timestamp};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::plan::Failure;
use flyball_runtime::{Chain, Event, Plan, Waiting, Write};

use super::census::{Census, count, is_newer};
use super::demand::{Demand, Required, owners_of};
use super::messages;
use super::status::{fail_safe, status};

/// How long pods that were created before their budget may take to show in the cache, also under load. No eviction waits
/// for that: the first pod that shows ends the delay.
const INFORMER_LAG: Duration = Duration::from_millis(250);

/// Everything that the decision depends on.
pub struct View<'a> {
    pub budget: &'a PodDisruptionBudget,
    /// The pods that it selects, by name.
    pub pods: &'a [Arc<Pod>],
    /// How many pods their owners want; zero if the budget does not depend on it.
    pub scale: Result<i32, &'a Problem>,
    /// The cache of pods is older than the budget.
    pub is_cache_behind: bool,
    /// The sync has been delayed by [`View::is_early`] once.
    pub has_waited: bool,
    pub now: Timestamp,
}

/// Why the status of a budget cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    Selector(String),
    /// The scale of an owner is not known.
    Scale {
        message: String,
        /// The answer came from cached discovery: sync again after this long.
        again_after: Option<Duration>,
    },
    Bound(String),
}

impl View<'_> {
    /// Whether the pods of a new budget may not be in the cache yet, as informers of different kinds lag each other.
    pub fn is_early(&self) -> bool {
        let is_new = self.budget.status.observed_generation == 0;
        let is_empty = self.pods.is_empty() && !matches!(self.scale, Err(Problem::Selector(_)));
        is_new && is_empty && self.is_cache_behind && !self.has_waited
    }

    /// How many pods there should be, and how many must be healthy.
    ///
    /// # Errors
    /// They cannot be computed.
    pub fn required(&self) -> Result<Required, Problem> {
        let scale = self.scale.map_err(Clone::clone)?;
        let required = Demand::of(&self.budget.spec).required(self.pods.len(), scale);
        required.map_err(|error| Problem::Bound(error.to_string()))
    }
}

/// Writes the status. If it cannot be computed, no disruption is allowed.
pub fn plan(view: &View<'_>) -> Plan {
    if view.is_early() {
        return Plan::after(INFORMER_LAG);
    }
    let mut events = pod_events(view);
    match view.required() {
        Ok(required) => {
            let census = count(view);
            events.extend(census.overdue.iter().map(|pod| {
                Event::warning("NotDeleted", messages::not_deleted(pod)).about(ObjectRef::of(*pod))
            }));
            let recheck = census.recheck.map(|due| until(due, view.now));
            let status = status(view, &census, required).map(|status| write(view.budget, &status));
            Plan::of(events).with_status(status).again_after(recheck).waiting_for(waiting(view, &census))
        }
        Err(problem) => {
            events.push(problem.event());
            let again = problem.again_after();
            let waiting = again.and_then(|delay| view.now.checked_add(delay).ok());
            let waiting =
                waiting.map(|time| Waiting::until(time, "when the scale of the owners is read again"));
            let status = refuse(view, problem.message());
            Plan::of(events).with_status(status).again_after(again).waiting_for(waiting)
        }
    }
}

/// After the status could not be written: allows no disruption, for the reason of the failure.
pub fn after_failure(view: &View<'_>, failure: &Failure) -> Option<Write> {
    let error = failure.error.as_ref()?;
    // The budget has changed since, or the answer was lost: nothing is known to be wrong.
    if error.is_conflict() || error.outcome_unknown() || error.is_outdated() || view.required().is_err() {
        return None;
    }
    refuse(view, &Chain(error).to_string())
}

fn write(budget: &PodDisruptionBudget, status: &PodDisruptionBudgetStatus) -> Write {
    let PodDisruptionBudgetStatus { current_healthy, desired_healthy, disruptions_allowed, .. } = status;
    let why = format_args!(
        "{current_healthy} healthy, {desired_healthy} required: {disruptions_allowed} disruptions allowed"
    );
    Write::status(budget, status).why(why)
}

fn refuse(view: &View<'_>, problem: &str) -> Option<Write> {
    let status = fail_safe(view.budget, problem, view.now)?;
    let why = format_args!("no disruption is allowed, as the status cannot be computed: {problem}");
    Some(Write::status(view.budget, &status).why(why))
}

/// Events about the pods that the budget selects.
fn pod_events(view: &View<'_>) -> Vec<Event> {
    if matches!(view.scale, Err(Problem::Selector(_))) {
        return vec![];
    }
    let mut events = vec![];
    // After a delay, pods that were created in the meantime do not count.
    let are_new = || view.has_waited && view.pods.iter().all(|pod| is_newer(pod, view.budget));
    if view.pods.is_empty() || are_new() {
        events.push(Event::normal("NoPods", "No matching pods found"));
    }
    let needs_scale = Demand::of(&view.budget.spec).needs_scale();
    if needs_scale && view.scale.is_ok() && !owners_of(view.pods).unmanaged.is_empty() {
        let message = messages::unmanaged(view.budget.spec.selector.as_ref());
        events.push(Event::warning("UnmanagedPods", message));
    }
    events
}

/// Evicted pods that are not deleted yet, and a pod that is not ready if no disruption is allowed.
fn waiting(view: &View<'_>, census: &Census<'_>) -> Vec<Waiting> {
    let mut waiting = vec![];
    for pod in view.pods.iter().filter(|pod| census.disrupted.contains_key(&pod.metadata.name)) {
        waiting.push(Waiting::on::<Pod>(&pod.key(), "to be deleted after its eviction"));
    }
    let is_unhealthy = |pod: &&Arc<Pod>| !pod.metadata.is_deleting() && !pod.is_ready();
    if view.required().is_ok_and(|required| required.allowed(census.healthy) == 0) {
        let unhealthy = view.pods.iter().find(is_unhealthy);
        waiting.extend(unhealthy.map(|pod| Waiting::on::<Pod>(&pod.key(), "to become ready")));
    }
    waiting
}

fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(due.duration_since(now)).unwrap_or_default()
}

impl Problem {
    fn message(&self) -> &str {
        match self {
            Self::Selector(message) | Self::Scale { message, .. } | Self::Bound(message) => message,
        }
    }

    fn again_after(&self) -> Option<Duration> {
        match self {
            Self::Scale { again_after, .. } => *again_after,
            Self::Selector(_) | Self::Bound(_) => None,
        }
    }

    fn event(&self) -> Event {
        match self {
            Self::Selector(message) => Event::warning("NoPods", format!("Failed to get pods: {message}")),
            Self::Scale { message, .. } | Self::Bound(message) => Event::warning(
                "CalculateExpectedPodCountFailed",
                format!("Failed to calculate the number of expected pods: {message}"),
            ),
        }
    }
}
