//! The writes and events that follow from a decision about an autoscaler. Pure.

use flyball_runtime::{Effect, Event, Plan, Write};
use serde_json::json;

use super::decision::{Decision, Rescale, View, target_key};
use super::scale_client::Scale;

/// Emits the events and rescales the workload. The status follows from whether that succeeds: see [`super::after`].
pub fn plan(view: &View<'_>, decision: &Decision) -> Plan {
    let events = decision.report.events.iter().cloned().map(Effect::from);
    let rescale = view.observed.scale.as_ref().ok().zip(decision.rescale.as_ref());
    let rescale = rescale.map(|(scale, rescale)| set_scale(view, scale, rescale).into());
    let error = decision.error.clone().map(Effect::Fail);
    Plan::of(events.chain(rescale).chain(error))
        .again_after(view.settings.period)
        .waiting_for(decision.waiting.clone())
}

fn set_scale(view: &View<'_>, scale: &Scale, rescale: &Rescale) -> Write {
    let Rescale { replicas, reason } = rescale;
    let replicas = *replicas;
    Write::update_retry_on_conflict(
        scale.resource.clone(),
        target_key(view.hpa),
        scale.body.clone(),
        move |scale| {
            scale["spec"]["replicas"] = json!(replicas);
        },
    )
    .subresource("scale")
    .why(reason)
    .on_success(Event::normal("SuccessfulRescale", format!("New size: {replicas}; reason: {reason}")))
}
