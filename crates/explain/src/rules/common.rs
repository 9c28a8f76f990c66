//! What Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs have in common: pods, and the right to create them.

use crate::finding::{Finding, Weight};
use crate::object::Obj;
use crate::words::{counted, seconds_between, span};
use crate::world::World;

use super::{main_problem, refusals};

/// The pods of a workload, those of a Deployment's ReplicaSets included.
pub(crate) fn pods_of<'a>(world: &'a World, workload: Obj<'a>) -> Vec<Obj<'a>> {
    match workload.kind() {
        "Deployment" => world
            .dependents(workload)
            .filter(|object| object.kind() == "ReplicaSet")
            .flat_map(|set| world.dependents(set).filter(|object| object.kind() == "Pod"))
            .collect(),
        _ => world.dependents(workload).filter(|object| object.kind() == "Pod").collect(),
    }
}

fn is_available(world: &World, pod: Obj<'_>, min_ready: i64) -> bool {
    let ready = pod.condition("Ready").filter(|ready| ready.status == "True");
    let is_old_enough = |since| seconds_between(since, world.now) >= min_ready;
    !pod.is_deleting() && ready.is_some_and(|ready| min_ready == 0 || ready.since.is_none_or(is_old_enough))
}

/// Why a pod is not ready; `None` if it is.
pub(crate) fn pod_problem(world: &World, pod: Obj<'_>) -> Option<Finding> {
    let is_fine =
        !pod.is_deleting() && (pod.has("Ready", "True") || pod.text("/status/phase") == "Succeeded");
    if is_fine { None } else { main_problem(world, pod) }
}

/// The problems of these pods, each once, with the pods that have it; the most frequent first.
pub(crate) fn problem_of<'a>(world: &World, pods: impl Iterator<Item = Obj<'a>>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for problem in pods.filter_map(|pod| pod_problem(world, pod)) {
        match found.iter_mut().find(|known| is_same(known, &problem)) {
            Some(known) if known.about != problem.about && !known.also.contains(&problem.about) => {
                known.also.push(problem.about)
            }
            Some(_) => {}
            None => found.push(problem),
        }
    }
    found.sort_by_key(|finding| (finding.weight, std::cmp::Reverse(finding.also.len())));
    found
}

/// Restarts and times differ between pods with the same problem.
fn is_same(a: &Finding, b: &Finding) -> bool {
    let stem = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).take(60).collect::<String>();
    a.rule == b.rule && (a.text == b.text || stem(&a.text) == stem(&b.text))
}

pub(super) fn behind(world: &World, workload: Obj<'_>) -> Vec<Finding> {
    let (generation, observed) =
        (workload.count("/metadata/generation"), workload.int("/status/observedGeneration"));
    if workload.is_deleting() || generation == 0 || observed.is_some_and(|observed| observed >= generation) {
        return Vec::new();
    }
    // A controller needs a moment, so only what is older counts.
    let written = workload.list("/metadata/managedFields").filter_map(|entry| entry.time("/time")).max();
    let written = written.or_else(|| workload.time("/metadata/creationTimestamp"));
    let age = written.map(|time| seconds_between(time, world.now));
    if age.is_some_and(|age| age < 10) {
        return vec![Finding::waits(
            "controller-behind",
            workload,
            "its controller has not seen the latest change yet",
        )];
    }
    let text = match age {
        Some(age) => format!("its controller has not seen the latest change, which is {} old", span(age)),
        None => "its controller has not seen the latest change".to_owned(),
    };
    let advice = "check that a kube-controller-manager runs and leads (kubectl -n kube-system get lease kube-controller-manager)";
    vec![Finding::blocks("controller-behind", workload, text).advise(advice)]
}

pub(super) fn zero(_: &World, workload: Obj<'_>) -> Vec<Finding> {
    let is_old_set = workload.kind() == "ReplicaSet"
        && workload.controller().is_some_and(|owner| owner.kind == "Deployment");
    if workload.int("/spec/replicas") != Some(0) || is_old_set {
        return Vec::new();
    }
    let who = writer_of(workload, "f:replicas");
    let by = who.map(|(who, time)| format!(" (set by {who} at {time})")).unwrap_or_default();
    let text = format!("it is scaled to 0 replicas{by}: no pod is wanted");
    let advice = format!(
        "kubectl -n {} scale {}/{} --replicas=N",
        workload.namespace(),
        workload.kind().to_lowercase(),
        workload.name()
    );
    vec![Finding::blocks("scaled-to-zero", workload, text).advise(advice)]
}

/// Who wrote a field of the spec last, and when, from managedFields.
pub(super) fn writer_of<'a>(object: Obj<'a>, field: &str) -> Option<(&'a str, &'a str)> {
    let entries = object.list("/metadata/managedFields");
    let mut owning: Vec<Obj<'_>> =
        entries.filter(|entry| entry.at("/fieldsV1/f:spec").get(field).is_some()).collect();
    owning.sort_by_key(|entry| entry.time("/time"));
    owning.last().map(|entry| (entry.text("/manager"), entry.text("/time")))
}

/// The API server refuses to create pods: from the condition ReplicaFailure, events, or decisions.
pub(super) fn refused(world: &World, workload: Obj<'_>) -> Vec<Finding> {
    let creators: Vec<Obj<'_>> = match workload.kind() {
        "Deployment" => world.dependents(workload).filter(|set| set.kind() == "ReplicaSet").collect(),
        _ => vec![workload],
    };
    for creator in creators {
        let pods = i64::try_from(pods_of(world, creator).iter().filter(|pod| !pod.is_deleting()).count())
            .unwrap_or(0);
        let wanted = match creator.kind() {
            "DaemonSet" => creator.count("/status/desiredNumberScheduled"),
            "Job" => creator
                .int("/spec/parallelism")
                .unwrap_or(1)
                .min(creator.int("/spec/completions").unwrap_or(1)),
            _ => creator.int("/spec/replicas").unwrap_or(1),
        };
        let is_over = creator.has("Complete", "True")
            || creator.has("Failed", "True")
            || creator.is_true("/spec/suspend");
        if is_over || pods >= wanted {
            continue;
        }
        let condition = creator.condition("ReplicaFailure").filter(|condition| condition.status == "True");
        let event = || world.event(creator, &["FailedCreate"]).map(|event| event.message.to_owned());
        let Some(message) =
            condition.map(|c| c.message.to_owned()).or_else(event).or_else(|| decided(world, creator))
        else {
            continue;
        };
        let (why, advice) = refusals::digest(&message);
        let missing = wanted - pods;
        let text = format!("{} cannot be created: {why}", counted(missing, "pod"));
        let finding = Finding::blocks("create-refused", creator, text);
        return vec![match advice {
            Some(advice) => finding.advise(advice),
            None => finding,
        }];
    }
    Vec::new()
}

/// The latest refusal in the decision log, if no later creation succeeded.
fn decided(world: &World, creator: Obj<'_>) -> Option<String> {
    let key = format!("{}/{}", creator.namespace(), creator.name());
    let kind = creator.kind().to_lowercase();
    let of = |decision: &&crate::world::Decision| {
        decision.action == "create"
            && decision.target.kind == "Pod"
            && decision.owner == key
            && decision.controller.starts_with(&kind)
    };
    let last = world.decisions.iter().rev().find(of)?;
    (last.outcome == "refused").then(|| last.detail.clone())
}

/// What is wrong with the pods.
pub(super) fn pods(world: &World, workload: Obj<'_>) -> Vec<Finding> {
    if workload.is_deleting() {
        return Vec::new();
    }
    let pods = pods_of(world, workload);
    let found = problem_of(world, pods.iter().copied().filter(|pod| !pod.is_deleting()));
    if !found.is_empty() {
        return found;
    }
    // All pods that are there are fine; some may still be on their way out.
    let wanted = workload.int("/spec/replicas").unwrap_or(1);
    let active = pods.iter().filter(|pod| !pod.is_deleting()).count();
    let is_short = workload.kind() != "DaemonSet" && i64::try_from(active).unwrap_or(0) < wanted;
    match is_short {
        true => problem_of(world, pods.into_iter().filter(|pod| pod.is_deleting())),
        false => Vec::new(),
    }
}

pub(super) fn min_ready(world: &World, workload: Obj<'_>) -> Vec<Finding> {
    let min_ready = workload.count("/spec/minReadySeconds");
    if min_ready == 0 || workload.is_deleting() {
        return Vec::new();
    }
    let pods = pods_of(world, workload);
    let young =
        pods.iter().filter(|pod| pod.has("Ready", "True") && !is_available(world, **pod, min_ready)).count();
    if young == 0 {
        return Vec::new();
    }
    let text = format!(
        "ready, but not yet for minReadySeconds ({}): {}",
        span(min_ready),
        counted(i64::try_from(young).unwrap_or(0), "pod")
    );
    vec![Finding::waits("min-ready", workload, text)]
}

/// Types whose status should be True.
const POSITIVE: &[&str] = &[
    "Ready",
    "Available",
    "Established",
    "NamesAccepted",
    "Synced",
    "Healthy",
    "Reconciled",
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Initialized",
    "Succeeded",
    "Issuing",
    "Valid",
    "Resolved",
];
/// Kinds whose conditions other rules explain.
const EXPLAINED: &[&str] = &[
    "Pod",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Node",
    "Namespace",
    "HorizontalPodAutoscaler",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "CertificateSigningRequest",
    "Service",
    "ReplicationController",
];

/// Any other object with conditions: those that say that something is wrong.
pub(super) fn conditions(world: &World, object: Obj<'_>) -> Vec<Finding> {
    if EXPLAINED.contains(&object.kind()) && object.group() == crate::kinds::group_of(object.kind()) {
        return Vec::new();
    }
    let bad = object.conditions().filter(|condition| {
        (POSITIVE.contains(&condition.kind) && condition.status != "True")
            || (matches!(condition.kind, "Degraded" | "Failed" | "Stalled" | "Error" | "Terminating")
                && condition.status == "True")
    });
    let mut found: Vec<Finding> = bad
        .map(|condition| {
            let said = match (condition.reason, condition.message) {
                ("", "") => String::new(),
                ("", said) => format!(": {said}"),
                (reason, "") => format!(" ({reason})"),
                (reason, said) => format!(" ({reason}): {said}"),
            };
            let text = format!("{} is {}{said}", condition.kind, condition.status);
            let since = crate::words::since(condition.since, world.now);
            Finding::new(
                "conditions",
                if condition.status == "Unknown" { Weight::Waits } else { Weight::Blocks },
                object,
                text + &since,
            )
        })
        .collect();
    let (generation, observed) =
        (object.count("/metadata/generation"), object.int("/status/observedGeneration"));
    if !object.is_deleting() && observed.is_some_and(|observed| observed < generation) {
        let text = "its controller has not seen the latest change: its status is about an older one";
        found.push(Finding::waits("conditions", object, text));
    }
    found
}
