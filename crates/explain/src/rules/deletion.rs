//! Objects that are being deleted: which finalizer holds them, whose it is, and what it waits for.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, list, seconds_between, since, span};
use crate::world::{Lookup, World};

use super::{nodes, volumes};

/// Longer than a kubelet usually takes after the grace period.
const SLACK: i64 = 30;

pub(super) fn finalizers(world: &World, object: Obj<'_>) -> Vec<Finding> {
    if !object.is_deleting() {
        return Vec::new();
    }
    let since = since(object.time("/metadata/deletionTimestamp"), world.now);
    let mut found = Vec::new();
    for finalizer in object.texts("/metadata/finalizers") {
        let (what, advice) = held_by(world, object, finalizer);
        let text = format!("it is being deleted{since}; finalizer {finalizer} holds it: {what}");
        found.push(Finding::blocks("finalizers", object, text).advise(advice));
    }
    found
}

fn said(what: &str, advice: &str) -> (String, String) {
    (what.to_owned(), advice.to_owned())
}

/// What a finalizer waits for, and what helps.
fn held_by(world: &World, object: Obj<'_>, finalizer: &str) -> (String, String) {
    match finalizer {
        "kubernetes.io/pvc-protection" => users_of_claim(world, object),
        "kubernetes.io/pv-protection" => {
            let claim = Obj(object.at("/spec/claimRef"));
            (
                format!("it is bound to claim {}/{}", claim.text("/namespace"), claim.text("/name")),
                "delete the claim first".to_owned(),
            )
        }
        "foregroundDeletion" => dependents(world, object),
        "orphan" => said(
            "the garbage collector releases its dependents first",
            "if this lasts, check that the controller manager runs",
        ),
        "kubernetes" if object.kind() == "Namespace" => {
            said("the namespace's content is deleted first", "ask why of the namespace")
        }
        "batch.kubernetes.io/job-tracking" => {
            let job = object.controller().map(|owner| owner.name).unwrap_or_default();
            (
                format!("the job controller has yet to count it for Job {job}"),
                "check that the controller manager runs; if the Job is gone, remove the finalizer".to_owned(),
            )
        }
        "service.kubernetes.io/load-balancer-cleanup" => {
            let event = world.event(
                object,
                &["SyncLoadBalancerFailed", "DeletingLoadBalancerFailed", "DeleteLoadBalancerFailed"],
            );
            let said = event.map(|event| format!(": {}", event.message)).unwrap_or_default();
            (
                format!("the cloud controller manager must delete the load balancer{said}"),
                "check the cloud controller manager".to_owned(),
            )
        }
        "customresourcecleanup.apiextensions.k8s.io" => said(
            "the API server deletes all its objects first",
            "look for objects of this kind that have finalizers",
        ),
        "external-attacher" | "external-provisioner.volume.kubernetes.io/finalizer" => {
            said("the volume's CSI driver must release it", "check the driver's controller")
        }
        name if name.starts_with("external-attacher/") => {
            let driver = name.trim_start_matches("external-attacher/").replace("-", ".");
            (
                format!("the CSI driver ({driver}) must detach it first"),
                "check the driver's external-attacher".to_owned(),
            )
        }
        name => unknown(object, name),
    }
}

/// `pvc-protection` waits for the pods that use a claim.
fn users_of_claim(world: &World, object: Obj<'_>) -> (String, String) {
    let pods = world.list("Pod", object.namespace());
    let using: Vec<&str> = pods
        .filter(|pod| !matches!(pod.text("/status/phase"), "Succeeded" | "Failed"))
        .filter(|pod| volumes::claim_names(*pod).iter().any(|name| name == object.name()))
        .map(Obj::name)
        .collect();
    match using.as_slice() {
        [] if world.is_read("Pod") => said(
            "no running pod uses the claim: the pvc-protection controller is about to remove it",
            "if this lasts, check that the controller manager runs",
        ),
        [] => said("pods may use the claim; they could not be read", "delete the pods that use it"),
        using => (
            format!(
                "{} used by pod {}",
                if using.len() == 1 { "it is" } else { "it is still" },
                list(using, 5)
            ),
            "delete these pods, or scale their owner down".to_owned(),
        ),
    }
}

/// In foreground deletion, an owner waits for its dependents, each of which may be stuck for its own reason.
fn dependents(world: &World, object: Obj<'_>) -> (String, String) {
    let left: Vec<String> = world.dependents(object).map(|dependent| dependent.named().short()).collect();
    let what = match left.is_empty() {
        true => "its dependents are deleted first".to_owned(),
        false => format!("its dependents are deleted first; {} left: {}", left.len(), list(&left, 4)),
    };
    let stuck = world
        .dependents(object)
        .filter(|dependent| dependent.is_deleting())
        .find_map(|dependent| super::main_problem(world, dependent));
    let what = stuck.map_or(what.clone(), |stuck| format!("{what}. {}", stuck.carried(object)));
    (what, "ask why of what is left".to_owned())
}

/// A finalizer that none of our rules knows.
fn unknown(object: Obj<'_>, name: &str) -> (String, String) {
    let owner = name.split('/').next().unwrap_or(name);
    let last = writers(object);
    let wrote = last.map(|manager| format!("; {manager} wrote the object before")).unwrap_or_default();
    let advice = format!(
        "check that the controller of {owner} still runs; if it is gone for good, remove the finalizer (kubectl patch … -p '{{\"metadata\":{{\"finalizers\":null}}}}' --type merge)"
    );
    (format!("the controller that set it must remove it{wrote}"), advice)
}

/// Who wrote the finalizers.
fn writers(object: Obj<'_>) -> Option<String> {
    let entries = object.list("/metadata/managedFields");
    let owning = entries.filter(|entry| entry.at("/fieldsV1/f:metadata").get("f:finalizers").is_some());
    owning.last().map(|entry| entry.text("/manager").to_owned())
}

/// Pods without finalizers: the grace period, then the kubelet must confirm.
pub(super) fn termination(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if !pod.is_deleting() || !pod.texts("/metadata/finalizers").is_empty() {
        return Vec::new();
    }
    let Some(end) = pod.time("/metadata/deletionTimestamp") else { return Vec::new() };
    let late = seconds_between(end, world.now);
    let grace = pod.count("/metadata/deletionGracePeriodSeconds");
    let node = pod.text("/spec/nodeName");
    let force = format!(
        "if the node is gone for good: kubectl -n {} delete pod {} --force",
        pod.namespace(),
        pod.name()
    );
    match world.get("Node", "", node) {
        _ if node.is_empty() => Vec::new(),
        Lookup::Absent => {
            let text = format!(
                "it is being deleted, and its node {node} does not exist: no kubelet confirms that it has stopped"
            );
            vec![Finding::blocks("pod-termination", pod, text).advise(force)]
        }
        Lookup::Found(found) if !nodes::is_ready(found) => {
            let text = format!(
                "it is being deleted, but its node {node} is not ready and cannot confirm that it has stopped: {}",
                nodes::why_not_ready(world, found)
            );
            vec![Finding::blocks("pod-termination", pod, text).advise(force)]
        }
        _ if late > SLACK => {
            let said = world.event(pod, &["FailedKillPod", "FailedPreStopHook"]);
            let said =
                said.map(|event| format!(" ({}: {})", event.reason, event.message)).unwrap_or_default();
            let text = format!(
                "its grace period ({grace}s) ended {} ago, and the kubelet on {node} has not stopped it{said}",
                span(late)
            );
            vec![
                Finding::blocks("pod-termination", pod, text)
                    .advise(format!("check the kubelet and the container runtime on {node}")),
            ]
        }
        _ => {
            let text = match late < 0 {
                true => format!("it is terminating: {} of its grace period ({grace}s) are left", span(-late)),
                false => format!("its grace period ({grace}s) is over: the kubelet is stopping it"),
            };
            vec![Finding::waits("pod-termination", pod, text)]
        }
    }
}

/// All owners are gone, and the garbage collector has not deleted it.
pub(super) fn owner_gone(world: &World, object: Obj<'_>) -> Vec<Finding> {
    let owners: Vec<_> = object.owners().collect();
    if owners.is_empty() || object.is_deleting() {
        return Vec::new();
    }
    let is_gone = |owner: &crate::object::Owner<'_>| {
        let at = |namespace: &str| {
            world.find(&crate::object::Ref::new(owner.group, owner.kind, namespace, owner.name))
        };
        match (at(object.namespace()), at("")) {
            (Lookup::Found(found), _) | (_, Lookup::Found(found)) => {
                !owner.uid.is_empty() && !found.uid().is_empty() && found.uid() != owner.uid
            }
            (Lookup::Absent, Lookup::Absent) => true,
            (Lookup::Absent, Lookup::Unknown) => !object.namespace().is_empty(),
            _ => false,
        }
    };
    if !owners.iter().all(is_gone) {
        return Vec::new();
    }
    let names: Vec<String> = owners.iter().map(|owner| format!("{} {}", owner.kind, owner.name)).collect();
    let count = counted(i64::try_from(names.len()).unwrap_or(1), "owner");
    let text =
        format!("its {count} ({}) no longer exist: the garbage collector will delete it", list(&names, 3));
    let text = if names.len() == 1 {
        text.replace("1 owner", "owner").replace("no longer exist:", "no longer exists:")
    } else {
        text
    };
    vec![Finding::notes("owner-gone", object, text)]
}
