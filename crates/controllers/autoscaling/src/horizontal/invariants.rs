//! What must hold for every step that an autoscaler takes; for tables, properties and the simulator.

use flyball_api::horizontal_pod_autoscaler::ScalingPolicy;
use jiff::SignedDuration;

use super::history::History;
use super::plan::{Step, View};

/// Checks a step against the spec, and against what was done before it.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(view: &View<'_>, before: &History, step: Option<&Step>) -> Result<(), String> {
    let Some(Step { replicas, reason }) = step else { return Ok(()) };
    let (min, max) = (view.hpa.spec.min_replicas.unwrap_or(1), view.hpa.spec.max_replicas);
    let (current, replicas) = (view.current, *replicas);
    let rules = [
        ("a step changes something", replicas != current),
        ("never more than the most", replicas <= max),
        ("never fewer than the fewest", replicas >= min),
        ("never faster upwards than allowed", replicas <= current || keeps_pace(view, before, replicas)),
        ("never faster downwards than allowed", replicas >= current || keeps_pace(view, before, replicas)),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| {
        Err(format!("{rule}: {current} -> {replicas} within {min}..={max} because {reason:?}"))
    })
}

/// Whether a step stays within what the most generous of the policies for its direction allows in its period.
fn keeps_pace(view: &View<'_>, before: &History, replicas: i32) -> bool {
    let Some(behavior) = &view.hpa.spec.behavior else {
        return replicas <= view.current.saturating_mul(2).max(4);
    };
    let is_up = replicas > view.current;
    let rules = if is_up { &behavior.scale_up } else { &behavior.scale_down };
    let Some(rules) = rules else { return true };
    if rules.select_policy.as_deref() == Some("Disabled") {
        return false;
    }
    let allows = |policy: &ScalingPolicy| {
        let period = SignedDuration::from_secs(policy.period_seconds.into());
        let start = before.at_start_of(period, view.current, view.now);
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
