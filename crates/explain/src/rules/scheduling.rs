//! Why a pod is on no node: gates, or the scheduler's message, translated and completed with what the objects say.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{list, one_line, since};
use crate::world::World;

pub(super) fn gates(_: &World, pod: Obj<'_>) -> Vec<Finding> {
    let gates: Vec<&str> = pod.list("/spec/schedulingGates").map(|gate| gate.text("/name")).collect();
    if gates.is_empty() {
        return Vec::new();
    }
    let text = format!("it is not scheduled while it has scheduling gates: {}", list(&gates, 5));
    vec![
        Finding::blocks("scheduling-gates", pod, text)
            .advise("the controller that set a gate must remove it"),
    ]
}

pub(super) fn unschedulable(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    let is_waiting = pod.text("/spec/nodeName").is_empty()
        && !pod.is_deleting()
        && matches!(pod.text("/status/phase"), "Pending" | "")
        && pod.list("/spec/schedulingGates").next().is_none();
    if !is_waiting {
        return Vec::new();
    }
    let condition = pod.condition("PodScheduled").filter(|condition| condition.status == "False");
    let message = condition.map(|condition| condition.message).filter(|message| !message.is_empty());
    let message = message.or_else(|| world.event(pod, &["FailedScheduling"]).map(|event| event.message));
    let Some(message) = message else { return vec![no_scheduler(world, pod)] };
    if let Some(claim) = claim_behind(world, pod, message) {
        return vec![claim];
    }
    let since = since(condition.and_then(|condition| condition.since), world.now);
    let (text, advice) = digest(world, pod, message);
    let finding = Finding::blocks("unschedulable", pod, format!("no node is suitable{since}: {text}"));
    let mut found = vec![match advice {
        Some(advice) => finding.advise(advice),
        None => finding,
    }];
    let nominated = pod.text("/status/nominatedNodeName");
    if !nominated.is_empty() {
        let text = format!("pods on node {nominated} are being preempted for it");
        found.insert(0, Finding::waits("unschedulable", pod, text));
    }
    found
}

fn no_scheduler(world: &World, pod: Obj<'_>) -> Finding {
    let since = since(pod.time("/metadata/creationTimestamp"), world.now);
    match pod.text("/spec/schedulerName") {
        "" | "default-scheduler" => {
            let text = format!("no scheduler has looked at it{since}");
            Finding::waits("unschedulable", pod, text).advise("if this lasts: check that kube-scheduler runs")
        }
        name => {
            let text = format!("the scheduler {name:?}, which its spec names, has not looked at it{since}");
            Finding::blocks("unschedulable", pod, text)
                .advise("start that scheduler, or correct schedulerName")
        }
    }
}

/// A claim that the scheduler waits for: its own problem is the answer.
fn claim_behind(world: &World, pod: Obj<'_>, message: &str) -> Option<Finding> {
    if !message.contains("unbound immediate PersistentVolumeClaims")
        && !message.contains("unbound PersistentVolumeClaims")
    {
        return None;
    }
    let names = super::volumes::claim_names(pod);
    let claims =
        names.iter().filter_map(|name| world.get("PersistentVolumeClaim", pod.namespace(), name).found());
    let unbound = claims.filter(|claim| claim.text("/status/phase") != "Bound");
    unbound.filter_map(|claim| super::main_problem(world, claim)).next()
}

/// The scheduler's message in the words of this pod, and what helps.
fn digest(world: &World, pod: Obj<'_>, message: &str) -> (String, Option<String>) {
    let Some((_, rest)) = message.split_once(" nodes are available: ") else {
        return (one_line(message, 240), None);
    };
    let reasons = rest.split(" preemption: ").next().unwrap_or(rest);
    let reasons =
        reasons.trim_end().trim_end_matches("no new claims to deallocate,").trim_end().trim_end_matches('.');
    let mut texts = Vec::new();
    let mut advice = None;
    for part in split_reasons(reasons) {
        let (text, help) = reason(world, pod, part);
        texts.push(text);
        advice = advice.or(help);
    }
    (texts.join("; "), advice)
}

/// At commas before a count: taints have commas of their own.
fn split_reasons(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(", ") {
        if text[at + 2..].starts_with(|c: char| c.is_ascii_digit()) {
            parts.push(&text[start..at]);
            start = at + 2;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn reason(world: &World, pod: Obj<'_>, part: &str) -> (String, Option<String>) {
    let (count, what) =
        part.split_once(' ').filter(|(count, _)| count.parse::<u32>().is_ok()).unwrap_or(("", part));
    let what = what.trim_start_matches("node(s) ");
    let nodes = if count == "1" { "1 node" } else { &format!("{count} nodes") };
    if let Some(resource) = what.strip_prefix("Insufficient ") {
        let asked = match requests(pod, resource) {
            Some(asked) => format!(" (the pod requests {asked})"),
            None => String::new(),
        };
        let advice = format!("lower the pod's {resource} request, or add nodes");
        return (format!("{nodes}: not enough free {resource}{asked}"), Some(advice));
    }
    let taint = what
        .strip_prefix("had untolerated taint(s) ")
        .or_else(|| what.strip_prefix("had untolerated taint "));
    if let Some(taint) =
        taint.map(|taint| taint.trim_matches(['{', '}']).replace(": ", "=").trim_end_matches('=').to_owned())
    {
        let advice = format!("remove the taint, or add a toleration for {taint}");
        return (format!("{nodes}: taint {taint} is not tolerated"), Some(advice));
    }
    let (text, advice): (String, Option<String>) = match what {
        "didn't match Pod's node affinity/selector" | "didn't match node selector" => {
            let advice = format!("label a node accordingly, or correct the selector: {}", selector(pod));
            (format!("do not match {}", selector(pod)), Some(advice))
        }
        "had volume node affinity conflict" => (conflict(world, pod), None),
        "didn't find available persistent volumes to bind" => {
            ("have no volume that fits the pod's claims".to_owned(), Some("ask why of the claim".to_owned()))
        }
        "were unschedulable" | "was unschedulable" => {
            ("cordoned".to_owned(), Some("uncordon a node (kubectl uncordon NODE), or add nodes".to_owned()))
        }
        "didn't match pod anti-affinity rules" | "didn't satisfy existing pods anti-affinity rules" => (
            "already have a pod that its anti-affinity excludes".to_owned(),
            Some("add nodes, or make the anti-affinity preferred".to_owned()),
        ),
        "didn't match pod affinity rules" => ("have no pod that its affinity requires".to_owned(), None),
        "didn't match pod topology spread constraints" => (
            "would violate its topology spread constraints".to_owned(),
            Some("add nodes in the smaller zones, or raise maxSkew".to_owned()),
        ),
        "didn't have free ports for the requested pod ports" => (
            "its host port is in use there".to_owned(),
            Some("hostPort allows one such pod per node".to_owned()),
        ),
        "exceed max volume count" => ("have as many volumes attached as they can".to_owned(), None),
        other => {
            return (
                one_line(&if count.is_empty() { other.to_owned() } else { format!("{nodes}: {other}") }, 200),
                None,
            );
        }
    };
    (format!("{nodes}: {text}"), advice)
}

/// What the pod requests of a resource, if one container does.
fn requests(pod: Obj<'_>, resource: &str) -> Option<String> {
    let of = |container: Obj<'_>| {
        let value = container.at("/resources/requests").get(resource)?.clone();
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let all: Vec<String> = pod.list("/spec/containers").filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(" + "))
}

fn selector(pod: Obj<'_>) -> String {
    let wanted: Vec<String> =
        pod.pairs("/spec/nodeSelector").map(|(key, value)| format!("{key}={value}")).collect();
    match (wanted.is_empty(), pod.at("/spec/affinity/nodeAffinity").is_null()) {
        (false, _) => format!("the node selector {}", wanted.join(",")),
        (true, false) => "the pod's node affinity".to_owned(),
        (true, true) => "the pod's node selector".to_owned(),
    }
}

/// Which volume keeps the pod from other nodes.
fn conflict(world: &World, pod: Obj<'_>) -> String {
    let tied = super::volumes::claim_names(pod).into_iter().find_map(|name| {
        let claim = world.get("PersistentVolumeClaim", pod.namespace(), &name).found()?;
        let volume = world.get("PersistentVolume", "", claim.text("/spec/volumeName")).found()?;
        let terms = volume.list("/spec/nodeAffinity/required/nodeSelectorTerms");
        let place: Vec<String> = terms
            .flat_map(|term| term.list("/matchExpressions"))
            .map(|expression| {
                format!("{}={}", expression.text("/key"), expression.texts("/values").join("|"))
            })
            .collect();
        Some(format!("volume {} of claim {name} is only usable where {}", volume.name(), list(&place, 3)))
    });
    tied.unwrap_or_else(|| "a volume of the pod cannot be used there (its node affinity)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_split_at_counts_only() {
        let text = "1 node(s) had untolerated taint(s) {a: b, c: d}, 2 Insufficient cpu";
        assert_eq!(
            split_reasons(text),
            ["1 node(s) had untolerated taint(s) {a: b, c: d}", "2 Insufficient cpu"]
        );
    }
}
