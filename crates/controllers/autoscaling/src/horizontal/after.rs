//! What follows from whether the workload could be rescaled: the status, and what to remember. Pure.

use flyball_api::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use flyball_runtime::plan::Message;
use flyball_runtime::{ErrorKinds, Event, Plan, Write};

use super::decision::{Decision, Rescale, Scaling, View};
use super::history::History;
use super::normalize::longest_period;
use super::status::{Desired, Report, is_new};

/// What follows from the outcome of a plan.
#[derive(Debug)]
pub struct After {
    /// The event about a rescale that failed, and the status.
    pub plan: Plan,
    pub history: History,
    /// The number of replicas that the workload is to have, if that could be determined.
    pub desired: Option<i32>,
}

/// What follows when a rescale, if one was decided, has failed with this error, or succeeded.
pub fn after(view: &View<'_>, decision: &Decision, failure: Option<&str>) -> After {
    let Decision { mut history, mut report, .. } = decision.clone();
    let Some(current) = decision.current else {
        let plan = Plan::default().with_status(write(view.hpa, &report.unchanged(view.hpa)));
        return After { plan, history, desired: None };
    };
    let mut event = None;
    let desired = match (&decision.rescale, failure) {
        (Some(rescale), Some(error)) => {
            report.not_rescaled(error);
            event = Some(not_rescaled(rescale, error));
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
    After { plan: Plan::of(event).with_status(write(view.hpa, &status)), history, desired }
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
    let is_to_zero = from > 0 && to == 0 && scaling.min() == 0 && scaling.has_metric_without_pods();
    report.scaled_to_zero(scaling.settings.scale_to_zero.then_some(is_to_zero));
}

fn write(hpa: &HorizontalPodAutoscaler, status: &HorizontalPodAutoscalerStatus) -> Option<Write> {
    let why = || format!("{} replicas, {} wanted", status.current_replicas, status.desired_replicas);
    let failed = || Event::warning("FailedUpdateStatus", Message::ThenError(String::new()));
    let write = || Write::status(hpa, status).ignore_only(ErrorKinds::NONE).why(why()).on_failure(failed());
    is_new(&hpa.status, status).then(write)
}
