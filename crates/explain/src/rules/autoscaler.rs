//! HorizontalPodAutoscalers: the arithmetic, metric by metric, and what limits the result.

use crate::finding::{Finding, Weight};
use crate::object::Obj;
use crate::words::{list, one_line, span};
use crate::world::World;

/// The flag --horizontal-pod-autoscaler-tolerance, unless the object has its own.
const TOLERANCE: f64 = 0.1;

pub(super) fn target(_: &World, hpa: Obj<'_>) -> Vec<Finding> {
    let target =
        || format!("{} {}", hpa.text("/spec/scaleTargetRef/kind"), hpa.text("/spec/scaleTargetRef/name"));
    let able = hpa.condition("AbleToScale").filter(|condition| condition.status == "False");
    let active = hpa.condition("ScalingActive").filter(|condition| condition.status == "False");
    match (able, active) {
        (Some(able), _) => {
            let text = format!(
                "its target {} cannot be scaled ({}): {}",
                target(),
                able.reason,
                one_line(able.message, 200)
            );
            vec![Finding::blocks("hpa-target", hpa, text).advise("check spec.scaleTargetRef")]
        }
        (None, Some(active)) if active.reason == "ScalingDisabled" => {
            let text = format!("it does nothing while {} has 0 replicas", target());
            vec![Finding::blocks("hpa-target", hpa, text).advise("scale the target to 1 or more")]
        }
        (None, Some(active))
            if active.reason == "AmbiguousSelector" || active.reason == "InvalidSelector" =>
        {
            vec![Finding::blocks(
                "hpa-target",
                hpa,
                format!("{}: {}", active.reason, one_line(active.message, 240)),
            )]
        }
        _ => Vec::new(),
    }
}

pub(super) fn metrics(_: &World, hpa: Obj<'_>) -> Vec<Finding> {
    let active = hpa.condition("ScalingActive").filter(|condition| condition.status == "False");
    let Some(active) =
        active.filter(|active| active.reason.starts_with("FailedGet") || active.reason.contains("Metric"))
    else {
        return Vec::new();
    };
    let message = active.message;
    let (why, advice) = match message {
        _ if message.contains("missing request for") => (
            "a container of its pods has no request for the resource, so utilization has no meaning",
            "set resources.requests on every container, or use an AverageValue target",
        ),
        _ if message.contains("could not find the requested resource")
            || message.contains("unable to handle the request")
            || message.contains("no matches for") =>
        {
            (
                "the metrics API is not served",
                "install or repair metrics-server (or the adapter for custom metrics)",
            )
        }
        _ if message.contains("did not receive metrics for") || message.contains("no metrics returned") => (
            "there are no metrics for its pods",
            "new pods have metrics after about a minute; else check metrics-server",
        ),
        _ => ("", "check the metrics API (kubectl get --raw /apis/metrics.k8s.io/v1beta1)"),
    };
    let said = one_line(message, 240);
    let text = match why {
        "" => format!("its metrics cannot be read ({}): {said}", active.reason),
        why => format!("its metrics cannot be read: {why} ({said})"),
    };
    vec![Finding::blocks("hpa-metrics", hpa, text).advise(advice)]
}

/// One metric: its name, value, target, and how many replicas it asks for.
struct Proposal {
    text: String,
    replicas: i64,
}

pub(super) fn arithmetic(_: &World, hpa: Obj<'_>) -> Vec<Finding> {
    let current = hpa.count("/status/currentReplicas");
    let desired = hpa.count("/status/desiredReplicas");
    if current == 0 || hpa.has("ScalingActive", "False") || hpa.has("AbleToScale", "False") {
        return Vec::new();
    }
    let proposals: Vec<Proposal> =
        hpa.list("/status/currentMetrics").filter_map(|status| proposal(hpa, status, current)).collect();
    let Some(highest) = proposals.iter().map(|proposal| proposal.replicas).max() else { return Vec::new() };
    let texts: Vec<&str> = proposals.iter().map(|proposal| proposal.text.as_str()).collect();
    let mut text = texts.join("; ");
    if proposals.len() > 1 {
        text.push_str(&format!("; the highest counts: {highest}"));
    }
    let limit = limit(hpa, current, highest, desired);
    let is_held = desired != highest && limit.is_some();
    if let Some(limit) = limit {
        text.push_str(&format!("; {limit}"));
    }
    let head = match (desired == current, is_held) {
        (true, _) => format!("it stays at {current} replicas"),
        (false, _) => format!("it scales from {current} to {desired} replicas"),
    };
    let weight = match (is_held, desired == current) {
        (true, true) => Weight::Blocks,
        (_, false) => Weight::Waits,
        (false, true) => Weight::Notes,
    };
    vec![Finding::new("hpa-arithmetic", weight, hpa, format!("{head}: {text}"))]
}

fn quantity(value: Obj<'_>, name: &str) -> Option<f64> {
    let text = value.text(&format!("/{name}"));
    text.parse::<flyball_api::Quantity>().ok().map(|quantity| quantity.to_f64())
}

fn proposal(hpa: Obj<'_>, status: Obj<'_>, current: i64) -> Option<Proposal> {
    let kind = status.text("/type");
    let field = match kind {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return None,
    };
    let status = Obj(status.at(&format!("/{field}")));
    let name_of = |metric: Obj<'_>| match metric.text("/name").to_owned() {
        name if name.is_empty() => metric.text("/metric/name").to_owned(),
        name => name,
    };
    let name = name_of(status);
    let spec = hpa
        .list("/spec/metrics")
        .filter(|spec| spec.text("/type") == kind)
        .map(|spec| Obj(spec.at(&format!("/{field}"))))
        .find(|spec| name_of(*spec) == name)?;
    let (value, target) = (Obj(status.at("/current")), Obj(spec.at("/target")));
    let (ratio, said) = match target.text("/type") {
        "Utilization" => {
            let (now, wanted) = (value.int("/averageUtilization")?, target.int("/averageUtilization")?);
            (now as f64 / wanted as f64, format!("{name} is {now}% of the request, target {wanted}%"))
        }
        "AverageValue" => {
            let (now, wanted) = (quantity(value, "averageValue")?, quantity(target, "averageValue")?);
            (
                now / wanted,
                format!(
                    "{name} is {} per pod, target {}",
                    value.text("/averageValue"),
                    target.text("/averageValue")
                ),
            )
        }
        _ => {
            let (now, wanted) = (quantity(value, "value")?, quantity(target, "value")?);
            (now / wanted, format!("{name} is {}, target {}", value.text("/value"), target.text("/value")))
        }
    };
    if !ratio.is_finite() {
        return None;
    }
    let direction = if ratio > 1.0 { "scaleUp" } else { "scaleDown" };
    let tolerance =
        quantity(Obj(hpa.at(&format!("/spec/behavior/{direction}"))), "tolerance").unwrap_or(TOLERANCE);
    if (ratio - 1.0).abs() <= tolerance {
        let text = format!("{said}: ratio {ratio:.2} is within the tolerance of {tolerance}");
        return Some(Proposal { text, replicas: current });
    }
    let replicas = (current as f64 * ratio - 1e-9).ceil() as i64;
    Some(Proposal {
        text: format!("{said}: ratio {ratio:.2}, {current} × {ratio:.2} rounded up is {replicas}"),
        replicas,
    })
}

/// What makes the result differ from what the metrics ask for.
fn limit(hpa: Obj<'_>, current: i64, highest: i64, desired: i64) -> Option<String> {
    let limited = hpa.condition("ScalingLimited").filter(|condition| condition.status == "True");
    let able = hpa.condition("AbleToScale");
    let is_up = highest > current;
    let behavior = |direction: &str| Obj(hpa.at(&format!("/spec/behavior/{direction}")));
    match (limited.map(|condition| condition.reason), able.map(|condition| condition.reason)) {
        (Some("TooManyReplicas"), _) => Some(format!("maxReplicas is {}", hpa.count("/spec/maxReplicas"))),
        (Some("TooFewReplicas"), _) => {
            Some(format!("minReplicas is {}", hpa.int("/spec/minReplicas").unwrap_or(1)))
        }
        (Some("ScaleUpLimit"), _) => Some(format!(
            "the policies of scaleUp allow {desired} now: {}",
            policies(behavior("scaleUp"), "4 pods or 100% per 15s")
        )),
        (Some("ScaleDownLimit"), _) => Some(format!(
            "the policies of scaleDown allow {desired} now: {}",
            policies(behavior("scaleDown"), "100% per 15s")
        )),
        (_, Some("ScaleDownStabilized")) => {
            let window = behavior("scaleDown").int("/stabilizationWindowSeconds").unwrap_or(300);
            Some(format!(
                "a higher number was recommended within the last {} (stabilization window of scaleDown)",
                span(window)
            ))
        }
        (_, Some("ScaleUpStabilized")) => {
            let window = behavior("scaleUp").int("/stabilizationWindowSeconds").unwrap_or(0);
            Some(format!(
                "a lower number was recommended within the last {} (stabilization window of scaleUp)",
                span(window)
            ))
        }
        _ if highest > desired && desired == hpa.count("/spec/maxReplicas") => {
            Some(format!("maxReplicas is {desired}"))
        }
        _ if highest < desired && desired == hpa.int("/spec/minReplicas").unwrap_or(1) => {
            Some(format!("minReplicas is {desired}"))
        }
        _ if highest != desired && !is_up => {
            Some("pods without metrics or not yet ready count as busy when scaling down".to_owned())
        }
        _ if highest != desired => {
            Some("pods without metrics or not yet ready count as idle when scaling up".to_owned())
        }
        _ => None,
    }
}

fn policies(behavior: Obj<'_>, default: &str) -> String {
    if behavior.text("/selectPolicy") == "Disabled" {
        return "selectPolicy is Disabled".to_owned();
    }
    let texts: Vec<String> = behavior
        .list("/policies")
        .map(|policy| {
            let unit = if policy.text("/type") == "Percent" { "%" } else { " pods" };
            format!("{}{unit} per {}", policy.count("/value"), span(policy.count("/periodSeconds")))
        })
        .collect();
    let select = match behavior.text("/selectPolicy") {
        "Min" => "the smallest of ",
        _ if texts.len() > 1 => "the largest of ",
        _ => "",
    };
    if texts.is_empty() { format!("{default} (default)") } else { format!("{select}{}", list(&texts, 4)) }
}

/// For the object that is scaled: which autoscaler decides, and what it says.
pub(super) fn of_target(world: &World, target: Obj<'_>) -> Vec<Finding> {
    let is_target = |hpa: &Obj<'_>| {
        hpa.text("/spec/scaleTargetRef/kind") == target.kind()
            && hpa.text("/spec/scaleTargetRef/name") == target.name()
    };
    let found = world.list("HorizontalPodAutoscaler", target.namespace()).filter(is_target);
    found
        .map(|hpa| {
            let said = [self::target, metrics, arithmetic]
                .into_iter()
                .find_map(|rule| rule(world, hpa).into_iter().next());
            let text = match said {
                Some(finding) => {
                    format!("HorizontalPodAutoscaler {} sets its replicas: {}", hpa.name(), finding.text)
                }
                None => format!("HorizontalPodAutoscaler {} sets its replicas", hpa.name()),
            };
            Finding::notes("autoscaled", target, text)
        })
        .collect()
}
