//! How an object is, in one line, and whether that is as it should be.

use crate::object::Obj;
use crate::rules::{node_is_ready, pods_of};
use crate::words::{counted, span};
use crate::world::World;

pub(crate) struct State {
    pub(crate) text: String,
    pub(crate) healthy: bool,
}

fn state(text: impl Into<String>, healthy: bool) -> State {
    State { text: text.into(), healthy }
}

pub(crate) fn of(world: &World, object: Obj<'_>) -> State {
    if object.is_deleting() {
        let age =
            object.time("/metadata/deletionTimestamp").map(|time| world.now.as_second() - time.as_second());
        return state(
            age.filter(|age| *age > 0)
                .map_or("being deleted".to_owned(), |age| format!("being deleted for {}", span(age))),
            false,
        );
    }
    match object.kind() {
        _ if object.group() != crate::kinds::group_of(object.kind()) => generic(object),
        "Pod" => pod(object),
        "Deployment" => deployment(object),
        "ReplicaSet" | "ReplicationController" => replicas(object),
        "StatefulSet" => stateful_set(object),
        "DaemonSet" => daemon_set(object),
        "Job" => job(object),
        "CronJob" => cron_job(object),
        "HorizontalPodAutoscaler" => autoscaler(object),
        "PersistentVolumeClaim" => claim(object),
        "PersistentVolume" => volume(object),
        "Node" => node(object),
        "Service" => service(world, object),
        "Namespace" => state(object.text("/status/phase").to_lowercase(), true),
        "PodDisruptionBudget" => disruption_budget(object),
        "ResourceQuota" => quota(object),
        "CertificateSigningRequest" => match object.text("/status/certificate").is_empty() {
            true => state("not signed", false),
            false => state("signed", true),
        },
        _ => generic(object),
    }
}

fn deployment(object: Obj<'_>) -> State {
    let wanted = object.int("/spec/replicas").unwrap_or(1);
    let (available, updated) =
        (object.count("/status/availableReplicas"), object.count("/status/updatedReplicas"));
    let is_rolling = updated < object.count("/status/replicas");
    let rolling = if is_rolling { format!(", {updated} updated") } else { String::new() };
    let text = format!("{available} of {} available{rolling}", counted(wanted, "replica"));
    state(text, available >= wanted && !is_rolling)
}

fn replicas(object: Obj<'_>) -> State {
    let wanted = object.int("/spec/replicas").unwrap_or(1);
    let available = object.count("/status/availableReplicas");
    state(format!("{available} of {} available", counted(wanted, "replica")), available >= wanted)
}

fn stateful_set(object: Obj<'_>) -> State {
    let wanted = object.int("/spec/replicas").unwrap_or(1);
    let ready = object.count("/status/readyReplicas");
    let (current, update) = (object.text("/status/currentRevision"), object.text("/status/updateRevision"));
    let updated = object.count("/status/updatedReplicas");
    let is_updated = current == update || updated >= wanted;
    let rolling = if is_updated { String::new() } else { format!(", {updated} updated") };
    state(format!("{ready} of {} ready{rolling}", counted(wanted, "replica")), ready >= wanted && is_updated)
}

fn daemon_set(object: Obj<'_>) -> State {
    let (wanted, ready) = (
        object.count("/status/desiredNumberScheduled"),
        object.count("/status/numberAvailable").max(object.count("/status/numberReady")),
    );
    state(format!("{ready} of {} ready", counted(wanted, "pod")), ready >= wanted)
}

fn job(object: Obj<'_>) -> State {
    match (object.has("Complete", "True"), object.has("Failed", "True"), object.is_true("/spec/suspend")) {
        (true, _, _) => state("complete", true),
        (_, true, _) => state("failed", false),
        (_, _, true) => state("suspended", false),
        _ => state(
            format!(
                "{} active, {} succeeded, {} failed",
                object.count("/status/active"),
                object.count("/status/succeeded"),
                object.count("/status/failed")
            ),
            false,
        ),
    }
}

fn cron_job(object: Obj<'_>) -> State {
    match object.is_true("/spec/suspend") {
        true => state("suspended", false),
        false => state(
            format!(
                "schedule {:?}, {} active",
                object.text("/spec/schedule"),
                object.list("/status/active").count()
            ),
            true,
        ),
    }
}

fn autoscaler(object: Obj<'_>) -> State {
    let text = format!(
        "{} replicas now, {} wanted (from {} to {})",
        object.count("/status/currentReplicas"),
        object.count("/status/desiredReplicas"),
        object.int("/spec/minReplicas").unwrap_or(1),
        object.count("/spec/maxReplicas")
    );
    state(text, !object.has("ScalingActive", "False") && !object.has("AbleToScale", "False"))
}

fn claim(object: Obj<'_>) -> State {
    match object.text("/status/phase") {
        "Bound" => state(format!("bound to {}", object.text("/spec/volumeName")), true),
        "" => state("not bound", false),
        phase => state(phase.to_lowercase(), false),
    }
}

fn volume(object: Obj<'_>) -> State {
    match object.text("/status/phase") {
        "Bound" => state(
            format!(
                "bound to {}/{}",
                object.text("/spec/claimRef/namespace"),
                object.text("/spec/claimRef/name")
            ),
            true,
        ),
        phase => state(phase.to_lowercase(), phase == "Available"),
    }
}

fn node(object: Obj<'_>) -> State {
    let cordoned = if object.is_true("/spec/unschedulable") { ", cordoned" } else { "" };
    match node_is_ready(object) {
        true => state(format!("ready{cordoned}"), true),
        false => state(format!("not ready{cordoned}"), false),
    }
}

fn service(world: &World, object: Obj<'_>) -> State {
    let selector: Vec<(String, String)> =
        object.pairs("/spec/selector").map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    if selector.is_empty() {
        return state(object.text("/spec/type").to_owned(), true);
    }
    let pods: Vec<Obj<'_>> =
        world.list("Pod", object.namespace()).filter(|pod| pod.matches_labels(&selector)).collect();
    let ready = pods.iter().filter(|pod| pod.has("Ready", "True") && !pod.is_deleting()).count();
    let is_pending = object.text("/spec/type") == "LoadBalancer"
        && object.list("/status/loadBalancer/ingress").next().is_none();
    let pending = if is_pending { ", no external address" } else { "" };
    state(
        format!("{ready} of {} ready{pending}", counted(i64::try_from(pods.len()).unwrap_or(0), "pod")),
        ready > 0 && !is_pending,
    )
}

fn disruption_budget(object: Obj<'_>) -> State {
    let allowed = object.count("/status/disruptionsAllowed");
    state(format!("{} allowed", counted(allowed, "disruption")), allowed > 0)
}

fn quota(object: Obj<'_>) -> State {
    let used = object.pairs("/status/hard").map(|(name, hard)| {
        let used = object.at("/status/used").get(name).and_then(|used| used.as_str()).unwrap_or("0");
        format!("{name} {used}/{hard}")
    });
    state(used.collect::<Vec<_>>().join(", "), true)
}

fn pod(pod: Obj<'_>) -> State {
    let node = match pod.text("/spec/nodeName") {
        "" => String::new(),
        node => format!(" on {node}"),
    };
    let phase = pod.text("/status/phase");
    match phase {
        "Running" if pod.has("Ready", "True") => state(format!("running and ready{node}"), true),
        "Running" => state(format!("running, not ready{node}"), false),
        "Succeeded" => state(format!("completed{node}"), true),
        "Pending" | "" if node.is_empty() => state("pending, not scheduled", false),
        "" => state(format!("pending{node}"), false),
        phase => state(format!("{}{node}", phase.to_lowercase()), false),
    }
}

fn generic(object: Obj<'_>) -> State {
    let ready =
        object.conditions().find(|condition| matches!(condition.kind, "Ready" | "Available" | "Established"));
    match ready {
        Some(condition) => {
            state(format!("{} is {}", condition.kind, condition.status), condition.status == "True")
        }
        None => match object.text("/status/phase") {
            "" => state("exists", true),
            phase => state(phase.to_owned(), !matches!(phase, "Failed" | "Error" | "Pending")),
        },
    }
}

/// The pods below an object that are not healthy, for the tree.
pub(crate) fn unhealthy_first<'a>(world: &'a World, owner: Obj<'a>) -> Vec<Obj<'a>> {
    let mut pods = pods_of(world, owner);
    pods.sort_by_key(|pod| (of(world, *pod).healthy, pod.name()));
    pods
}
