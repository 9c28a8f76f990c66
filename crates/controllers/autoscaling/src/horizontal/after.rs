//! What follows from whether the workload could be rescaled: the status, what to remember, and what to count. Pure.

use flyball_api::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use flyball_runtime::plan::Message;
use flyball_runtime::{Effect, ErrorKinds, Event, Outcome, Write};

use super::decision::{Decision, Rescale, Scaling, View};
use super::history::History;
use super::monitor::{Action, Fault};
use super::normalize::longest_period;
use super::status::{Desired, Report, is_new};

/// What follows from the outcome of a plan.
#[derive(Debug)]
pub struct After {
    /// The event about a rescale that failed, and the status.
    pub effects: Vec<Effect>,
    pub history: History,
    /// The number of replicas that the workload is to have, if that could be determined.
    pub desired: Option<i32>,
    /// Whether the workload was scaled up or down, for metrics.
    pub(super) action: Action,
}

/// Why a rescale failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub error: String,
    /// Whether it may have been made all the same.
    pub is_outcome_unknown: bool,
}

impl Failed {
    /// The failure of the rescale among the effects of a plan, if it failed.
    pub fn of(view: &View<'_>, outcome: &Outcome) -> Option<Self> {
        let scale = view.observed.scale.as_ref().ok()?;
        let error = outcome.failures.iter().find_map(|failure| failure.tag.and(failure.error.as_ref()))?;
        Some(Self { error: scale.quote(error), is_outcome_unknown: error.outcome_unknown() })
    }
}

/// The kind of error that a reconciliation has ended with, for metrics.
pub(super) fn fault(decision: &Decision, has_failed: bool) -> Fault {
    match has_failed {
        false => Fault::None,
        true if decision.is_spec_error => Fault::Spec,
        true => Fault::Internal,
    }
}

/// What follows when a rescale, if one was decided, has failed, or succeeded.
pub fn after(view: &View<'_>, decision: &Decision, failure: Option<&Failed>) -> After {
    let Decision { mut history, mut report, .. } = decision.clone();
    let Some(current) = decision.current else {
        let effects = write(view.hpa, &report.unchanged(view.hpa)).map(Effect::from).into_iter().collect();
        return After { effects, history, desired: None, action: Action::None };
    };
    let mut event = None;
    let desired = match (&decision.rescale, failure) {
        (Some(rescale), Some(Failed { error, is_outcome_unknown })) => {
            report.not_rescaled(error);
            event = Some(not_rescaled(rescale, error));
            if rescale.replicas == 0 && !is_outcome_unknown {
                history.scaled_to_zero = None;
            }
            Desired::Unknown
        }
        (Some(rescale), None) => {
            rescaled(&view.scaling(current), rescale, &mut history, &mut report);
            Desired::Set(rescale.replicas)
        }
        (None, _) if decision.is_unknown => Desired::Unknown,
        (None, _) => Desired::AsIs,
    };
    let status = report.status(view.hpa, current, desired, decision.metrics.clone());
    let desired = (desired != Desired::Unknown).then_some(status.desired_replicas);
    let write = write(view.hpa, &status).map(Effect::from);
    let action = match (&decision.rescale, failure) {
        (Some(rescale), None) => Action::of(current, rescale.replicas),
        _ => Action::None,
    };
    After { effects: event.map(Effect::from).into_iter().chain(write).collect(), history, desired, action }
}

fn not_rescaled(rescale: &Rescale, error: &str) -> Event {
    let Rescale { replicas, reason } = rescale;
    Event::warning("FailedRescale", format!("New size: {replicas}; reason: {reason}; error: {error}"))
}

/// Remembers a rescale that was made, and reports it.
pub fn rescaled(scaling: &Scaling<'_>, rescale: &Rescale, history: &mut History, report: &mut Report) {
    let (from, to) = (scaling.current, rescale.replicas);
    report.rescaled(to);
    if let Some(behavior) = &scaling.hpa.spec.behavior {
        history.record_change(from, to, longest_period(behavior, from, to), scaling.now);
    }
    if to > 0 {
        history.scaled_to_zero = None;
        history.left_zero = scaling.says_scaled_to_zero().then(|| scaling.hpa.metadata.uid.clone());
    }
    report.scaled_to_zero(scaling.settings.scale_to_zero.then_some(scaling.is_to_zero(to)));
}

fn write(hpa: &HorizontalPodAutoscaler, status: &HorizontalPodAutoscalerStatus) -> Option<Write> {
    let why = || format!("{} replicas, {} wanted", status.current_replicas, status.desired_replicas);
    let failed = || Event::warning("FailedUpdateStatus", Message::ThenError(String::new()));
    let write = || Write::status(hpa, status).ignore_only(ErrorKinds::NONE).why(why()).on_failure(failed());
    is_new(&hpa.status, status).then(write)
}
