//! What must hold for every rescale; for tables, properties and the simulator.

use flyball_api::horizontal_pod_autoscaler::ScalingPolicy;
use jiff::SignedDuration;

use super::decision::{Decision, NextStep, Rescale, Scaling, View, next_step};
use super::history::History;

/// Checks the rescale of a decision against the spec and the earlier rescales.
///
/// # Errors
/// The invariant that is broken.
pub fn check(view: &View<'_>, decision: &Decision) -> Result<(), String> {
    let (Some(current), Some(rescale)) = (decision.current, &decision.rescale) else { return Ok(()) };
    let scaling = view.scaling(current);
    match next_step(&scaling) {
        NextStep::ReadMetrics => check_rescale(&scaling, view.history, rescale),
        // Outside of the bounds no policy applies.
        NextStep::ScaleTo(..) | NextStep::Disabled => Ok(()),
    }
}

/// Checks a rescale that follows from metrics.
///
/// # Errors
/// The invariant that is broken.
pub fn check_rescale(scaling: &Scaling<'_>, before: &History, rescale: &Rescale) -> Result<(), String> {
    let Rescale { replicas, reason } = rescale;
    let (min, max) = (scaling.hpa.spec.min_replicas.unwrap_or(1), scaling.hpa.spec.max_replicas);
    let (current, replicas) = (scaling.current, *replicas);
    let rules = [
        ("a rescale changes the number of replicas", replicas != current),
        ("never more than maxReplicas", replicas <= max),
        ("never fewer than minReplicas", replicas >= min),
        ("never up faster than allowed", replicas <= current || is_allowed(scaling, before, replicas)),
        ("never down faster than allowed", replicas >= current || is_allowed(scaling, before, replicas)),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| {
        Err(format!("{rule}: {current} -> {replicas} within {min}..={max} because {reason:?}"))
    })
}

/// Whether the policies for its direction allow a rescale.
fn is_allowed(scaling: &Scaling<'_>, before: &History, replicas: i32) -> bool {
    let Some(behavior) = &scaling.hpa.spec.behavior else {
        return replicas <= scaling.current.saturating_mul(2).max(4);
    };
    let is_up = replicas > scaling.current;
    let rules = if is_up { &behavior.scale_up } else { &behavior.scale_down };
    let Some(rules) = rules else { return true };
    if rules.select_policy.as_deref() == Some("Disabled") {
        return false;
    }
    let allows = |policy: &ScalingPolicy| {
        let period = SignedDuration::from_secs(policy.period_seconds.into());
        let start = before.at_start_of(period, scaling.current, scaling.now);
        let towards = if is_up { 1.0 } else { -1.0 };
        let change = (f64::from(replicas) - f64::from(start)) * towards;
        let most = match policy.type_.as_str() {
            "Pods" => f64::from(policy.value),
            _ => f64::from(start).abs() * f64::from(policy.value) / 100.0,
        };
        change < most + 1.0
    };
    match rules.select_policy.as_deref() {
        Some("Min") => rules.policies.iter().all(allows),
        _ => rules.policies.iter().any(allows),
    }
}
