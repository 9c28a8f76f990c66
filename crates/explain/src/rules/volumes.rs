//! A pod's volumes: claims that are missing, disks that are not attached, mounts that fail.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{between, list, one_line, since};
use crate::world::World;

/// The claims that a pod uses, generic ephemeral volumes included.
pub(super) fn claim_names<'a>(pod: Obj<'a>) -> Vec<std::borrow::Cow<'a, str>> {
    let of = |volume: Obj<'a>| match volume.text("/persistentVolumeClaim/claimName") {
        "" if volume.at("/ephemeral/volumeClaimTemplate").is_null() => None,
        "" => Some(format!("{}-{}", pod.name(), volume.text("/name")).into()),
        name => Some(name.into()),
    };
    pod.list("/spec/volumes").filter_map(of).collect()
}

fn is_pending(pod: Obj<'_>) -> bool {
    pod.text("/status/phase") == "Pending" && !pod.is_deleting()
}

pub(super) fn claims(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if !is_pending(pod) {
        return Vec::new();
    }
    let missing = claim_names(pod).into_iter().filter_map(|name| {
        match world.get("PersistentVolumeClaim", pod.namespace(), &name) {
            found if found.is_absent() => {
                let text = format!("PersistentVolumeClaim {name}, which it uses, does not exist");
                Some(Finding::blocks("claim-missing", pod, text).advise("create the claim"))
            }
            crate::world::Lookup::Found(claim) if claim.is_deleting() => {
                let text = format!("PersistentVolumeClaim {name}, which it uses, is being deleted");
                Some(Finding::blocks("claim-missing", pod, text))
            }
            _ => None,
        }
    });
    missing.collect()
}

pub(super) fn attach(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if !is_pending(pod) || pod.text("/spec/nodeName").is_empty() {
        return Vec::new();
    }
    let Some(event) = world.event(pod, &["FailedAttachVolume"]) else { return Vec::new() };
    let volume = between(event.message, "volume \"", "\"").unwrap_or("a volume");
    if event.message.contains("Multi-Attach error") {
        let user = users(world, pod, volume);
        let text = format!(
            "volume {volume} is still attached to another node{user}; it can be attached to one node only"
        );
        let advice = "the other pod must end, or its node be confirmed as gone (taint node.kubernetes.io/out-of-service)";
        return vec![Finding::blocks("volume-attach", pod, text).advise(advice)];
    }
    let node = pod.text("/spec/nodeName");
    let why = event.message.split_once(" : ").map_or(event.message, |(_, why)| why);
    let text = format!("volume {volume} cannot be attached to node {node}: {}", one_line(why, 200));
    vec![Finding::blocks("volume-attach", pod, text).advise("check the CSI driver and its controller")]
}

/// `: pod db-0 on node-1`: who uses the volume.
fn users(world: &World, pod: Obj<'_>, volume: &str) -> String {
    let claim = world
        .list("PersistentVolumeClaim", pod.namespace())
        .find(|claim| claim.text("/spec/volumeName") == volume);
    let Some(claim) = claim else { return String::new() };
    let others = world.list("Pod", pod.namespace()).filter(|other| other.name() != pod.name());
    let using = others.filter(|other| claim_names(*other).iter().any(|name| name == claim.name()));
    let names: Vec<String> = using
        .map(|other| {
            let ending = if other.is_deleting() { ", being deleted" } else { "" };
            format!("pod {} on {}{ending}", other.name(), other.text("/spec/nodeName"))
        })
        .collect();
    if names.is_empty() { String::new() } else { format!(" ({})", list(&names, 3)) }
}

pub(super) fn mount(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if !is_pending(pod) {
        return Vec::new();
    }
    let events = world.events(pod);
    let mut failed = events.iter().rev().filter(|event| event.reason == "FailedMount");
    // The specific message says more than the one about the time that has passed.
    let specific =
        failed.clone().find(|event| !event.message.contains("timed out waiting for the condition"));
    let Some(event) = specific.or_else(|| failed.next()) else { return Vec::new() };
    let volume = between(event.message, "volume \"", "\"")
        .or_else(|| between(event.message, "unmounted volumes=[", "]"));
    let volume = volume.unwrap_or("a volume");
    let why = event.message.split_once("\" : ").map_or(event.message, |(_, why)| why);
    let missing = ["configmap", "secret"].into_iter().find_map(|kind| {
        let name = between(why, &format!("{kind} \""), "\" not found")?;
        Some(format!("{} {name} does not exist", if kind == "secret" { "Secret" } else { "ConfigMap" }))
    });
    let (why, advice) = match missing {
        Some(missing) => (missing, "create it, or mark the volume as optional"),
        None => {
            (one_line(why, 200), "check the volume, its driver on the node, and the network to the storage")
        }
    };
    let text = format!("volume {volume} cannot be mounted: {why}");
    vec![Finding::blocks("volume-mount", pod, text).advise(advice)]
}

pub(super) fn attachment(world: &World, attachment: Obj<'_>) -> Vec<Finding> {
    let driver = attachment.text("/spec/attacher");
    let failed = [("attach", "/status/attachError"), ("detach", "/status/detachError")].into_iter().find_map(
        |(verb, at)| {
            let error = Obj(attachment.at(at));
            (!error.0.is_null()).then(|| (verb, error.text("/message")))
        },
    );
    let (node, volume) =
        (attachment.text("/spec/nodeName"), attachment.text("/spec/source/persistentVolumeName"));
    if let Some((verb, message)) = failed {
        let text = format!(
            "driver {driver} cannot {verb} volume {volume} (node {node}): {}",
            one_line(message, 200)
        );
        return vec![Finding::blocks("attachment", attachment, text)];
    }
    if attachment.is_true("/status/attached") {
        return Vec::new();
    }
    let since = since(attachment.time("/metadata/creationTimestamp"), world.now);
    let text = format!("driver {driver} has not attached volume {volume} to node {node}{since}");
    vec![
        Finding::waits("attachment", attachment, text)
            .advise("check that the driver's external-attacher runs"),
    ]
}
