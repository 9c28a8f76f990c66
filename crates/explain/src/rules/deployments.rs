//! Deployments: paused rollouts, the arithmetic of a rolling update, the progress deadline.

use flyball_api::IntOrString;
use flyball_api::intstr::Rounding;

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::span;
use crate::world::World;

pub(super) fn paused(_: &World, deployment: Obj<'_>) -> Vec<Finding> {
    if !deployment.is_true("/spec/paused") {
        return Vec::new();
    }
    let text = "it is paused: changes of its template are not rolled out (scaling still works)";
    let advice =
        format!("kubectl -n {} rollout resume deployment/{}", deployment.namespace(), deployment.name());
    let finding = match updated(deployment) < wanted(deployment) {
        true => Finding::blocks("paused", deployment, text),
        false => Finding::notes("paused", deployment, text),
    };
    vec![finding.advise(advice)]
}

fn wanted(deployment: Obj<'_>) -> i64 {
    deployment.int("/spec/replicas").unwrap_or(1)
}

fn updated(deployment: Obj<'_>) -> i64 {
    deployment.count("/status/updatedReplicas")
}

/// Why a rollout does not go faster: how many pods may be missing and how many more there may be.
pub(super) fn arithmetic(_: &World, deployment: Obj<'_>) -> Vec<Finding> {
    let (wanted, updated) = (wanted(deployment), updated(deployment));
    let total = deployment.count("/status/replicas");
    let is_rolling = deployment.text("/spec/strategy/type") != "Recreate";
    if !is_rolling || deployment.is_deleting() || wanted == 0 || total <= updated {
        return Vec::new();
    }
    let read = |pointer: &str, rounding: Rounding| {
        let value = deployment.at(pointer);
        let value = if value.is_null() { serde_json::json!("25%") } else { value.clone() };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = serde_json::from_value::<IntOrString>(value).ok();
        (value.and_then(|value| value.resolve(wanted, rounding).ok()), text)
    };
    let (surge, surge_text) = read("/spec/strategy/rollingUpdate/maxSurge", Rounding::Up);
    let (missing, missing_text) = read("/spec/strategy/rollingUpdate/maxUnavailable", Rounding::Down);
    let (Some(surge), Some(missing)) = (surge, missing) else { return Vec::new() };
    // Both zero would never progress.
    let missing = if surge == 0 && missing == 0 { 1 } else { missing };
    let available = deployment.count("/status/availableReplicas");
    let text = format!(
        "rolling update: {updated} of {wanted} pods are of the new template; at most {} pods at once (maxSurge {surge_text}: {surge} more), \
         at least {} available (maxUnavailable {missing_text}: {missing} fewer); now {total} pods, {available} available",
        wanted + surge,
        wanted - missing,
    );
    vec![Finding::notes("rollout-arithmetic", deployment, text)]
}

pub(super) fn deadline(_: &World, deployment: Obj<'_>) -> Vec<Finding> {
    let progressing = deployment.condition("Progressing");
    let late = progressing
        .filter(|condition| condition.status == "False" && condition.reason == "ProgressDeadlineExceeded");
    if late.is_none() {
        return Vec::new();
    }
    let limit = deployment.int("/spec/progressDeadlineSeconds").unwrap_or(600);
    let text =
        format!("its rollout has made no progress for longer than progressDeadlineSeconds ({})", span(limit));
    let advice =
        format!("kubectl -n {} rollout undo deployment/{}", deployment.namespace(), deployment.name());
    vec![Finding::blocks("progress-deadline", deployment, text).advise(advice)]
}
