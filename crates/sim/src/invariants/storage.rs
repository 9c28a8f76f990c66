//! Rules for volumes and claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::{Node, PersistentVolume, PersistentVolumeClaim, Quantity, VolumeAttachment};
use flyball_storage::attach_detach::invariants;
use flyball_storage::binder::invariants as binder;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::values::{ensure, has_ended, is_deleting, items, manager, name, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("persistentvolume-binder-controller",          "a claim is bound to a volume whose claimRef names it", promised),
    rule("persistentvolume-binder-controller",          "a volume has one claim, and a claim one volume",       one_to_one),
    rule("persistentvolume-binder-controller",          "no volume is deleted while its claim exists",          claim_is_gone),
    rule("persistentvolume-binder-controller",          "a bound claim and its volume match",                   fits),
    rule("persistentvolume-attach-detach-controller",   "one attachment for a volume and a node",               attached_once),
    rule("persistentvolume-attach-detach-controller",   "an exclusive disk is attached to one node",            one_node_each),
    rule("persistentvolume-expander-controller",        "no volume shrinks",                                    grows),
    rule("persistentvolumeclaim-protection-controller", "a claim keeps its finalizer while a pod uses it",      claim_in_use),
    rule("persistentvolume-protection-controller",      "a volume keeps its finalizer while it is bound",       volume_in_use),
    rule("volumeattributesclass-protection-controller", "a class keeps its finalizer while it is used",         class_in_use),
    rule("ephemeral-volume-controller",                 "a claim is owned by its pod",                          made_for_pod),
    rule("selinux-warning-controller",                  "only events",                                          nothing),
];

const VOLUMES: &str = "persistentvolumes";
const CLAIMS: &str = "persistentvolumeclaims";

fn promised(state: &ServerState, write: &Write) -> Result<(), String> {
    let volume = |claim: &Value| text(&claim["spec"]["volumeName"]).to_owned();
    let (before, after) = (volume(&write.before), volume(&write.after));
    if !write.changes("", CLAIMS) || after.is_empty() || before == after {
        return Ok(());
    }
    let volumes = state.versions_named("", VOLUMES, "", &after);
    let own = |volume: &Arc<Value>| text(&volume["spec"]["claimRef"]["uid"]) == uid(&write.after);
    ensure(volumes.iter().any(own), || format!("{after} never had a claimRef to it"))
}

fn one_to_one(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("", CLAIMS) && !write.is_on("", VOLUMES) {
        return Ok(());
    }
    let mut promised = BTreeSet::new();
    // A user may create any number of volumes with the uid of one claim; a provisioner may not.
    let by_user = |volume: &Value| {
        let versions = state.versions_named("", VOLUMES, "", name(volume));
        versions.first().is_some_and(|created| {
            !text(&created["spec"]["claimRef"]["uid"]).is_empty()
                && created["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"].is_null()
        })
    };
    let bound = |volume: &&Arc<Value>| {
        volume["status"]["phase"] == "Bound" && !is_deleting(volume) && !by_user(volume)
    };
    for volume in state.list("", VOLUMES, None).iter().filter(bound) {
        let claim = text(&volume["spec"]["claimRef"]["uid"]).to_owned();
        ensure(claim.is_empty() || promised.insert(claim), || {
            format!("two volumes are bound to one claim: {}", name(volume))
        })?;
    }
    let mut taken = BTreeSet::new();
    // Several claims may name the same volume by themselves. A user may write the status of a claim that names none.
    let is_bound = |claim: &&Arc<Value>| {
        claim["status"]["phase"] == "Bound" && !text(&claim["spec"]["volumeName"]).is_empty()
    };
    for claim in state.list("", CLAIMS, None).iter().filter(is_bound) {
        let volume = text(&claim["spec"]["volumeName"]).to_owned();
        ensure(taken.insert(volume.clone()), || format!("two claims are bound to {volume}"))?;
    }
    Ok(())
}

fn claim_is_gone(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes("", VOLUMES) {
        return Ok(());
    }
    let claim = &write.before["spec"]["claimRef"];
    let found = state.get("", CLAIMS, text(&claim["namespace"]), text(&claim["name"]));
    let lives = !found.is_null() && uid(&found) == text(&claim["uid"]) && !is_deleting(&found);
    ensure(!lives, || format!("{} is there", name(&found)))
}

fn attached_once(state: &ServerState, write: &Write) -> Result<(), String> {
    const GROUP: &str = "storage.k8s.io";
    if !write.creates(GROUP, "volumeattachments") {
        return Ok(());
    }
    let place =
        |attachment: &Value| (attachment["spec"]["source"].clone(), attachment["spec"]["nodeName"].clone());
    let own = place(&write.after);
    let same =
        state.list(GROUP, "volumeattachments", None).iter().filter(|other| place(other) == own).count();
    ensure(same == 1, || format!("{same} for {own:?}"))
}

fn one_node_each(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.creates("storage.k8s.io", "volumeattachments") && !write.changes("", "nodes") {
        return Ok(());
    }
    let volumes: Vec<PersistentVolume> = read(&state.list("", VOLUMES, None));
    let attachments: Vec<VolumeAttachment> = read(&state.list("storage.k8s.io", "volumeattachments", None));
    let nodes: Vec<Node> = read(&state.list("", "nodes", None));
    invariants::one_node_each(&volumes, &attachments, &nodes)
}

fn read<T: DeserializeOwned>(objects: &[Arc<Value>]) -> Vec<T> {
    objects.iter().filter_map(|object| T::deserialize(&**object).ok()).collect()
}

/// A newly bound claim must match some state that its volume has had.
fn fits(state: &ServerState, write: &Write) -> Result<(), String> {
    let is_bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    if !write.changes("", CLAIMS) || is_bound(&write.before) || !is_bound(&write.after) {
        return Ok(());
    }
    let claim = PersistentVolumeClaim::deserialize(&*write.after).map_err(|error| error.to_string())?;
    let states: Vec<PersistentVolume> = read(&state.versions_named("", VOLUMES, "", &claim.spec.volume_name));
    let claims = [Arc::new(claim)];
    let mut result = Err("its volume never existed".to_owned());
    for state in states {
        result = binder::check_bindings(&claims, &[Arc::new(state)]);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn grows(_: &ServerState, write: &Write) -> Result<(), String> {
    let size = |object: &Value, path: &str| {
        object.pointer(path).and_then(|size| text(size).parse::<Quantity>().ok())
    };
    for path in ["/spec/capacity/storage", "/status/capacity/storage"] {
        let (before, after) = (size(&write.before, path), size(&write.after, path));
        let holds = before.zip(after).is_none_or(|(before, after)| before.to_f64() <= after.to_f64());
        ensure(holds, || format!("{path} shrinks"))?;
    }
    Ok(())
}

/// The claims that a pod has.
fn claims(pod: &Value) -> Vec<String> {
    let of = |volume: &Value| match volume["ephemeral"].is_object() {
        true => format!("{}-{}", name(pod), text(&volume["name"])),
        false => text(&volume["persistentVolumeClaim"]["claimName"]).to_owned(),
    };
    items(&pod["spec"]["volumes"]).map(of).filter(|claim| !claim.is_empty()).collect()
}

/// Only pods on a node count: a kubelet does not start one whose claim is being deleted.
fn claim_in_use(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.drops("kubernetes.io/pvc-protection") {
        return Ok(());
    }
    let is_kept = |pod: &&Arc<Value>| {
        let is_shut_down = is_deleting(pod) && pod["metadata"]["deletionGracePeriodSeconds"] == 0;
        let is_on_node = !text(&pod["spec"]["nodeName"]).is_empty();
        is_on_node && !is_shut_down && !has_ended(pod) && claims(pod).contains(&write.name)
    };
    let pods = state.list("", "pods", Some(&write.namespace));
    let user = pods.iter().find(is_kept);
    ensure(user.is_none(), || format!("{} has it", user.map_or("", |pod| name(pod))))
}

fn volume_in_use(_: &ServerState, write: &Write) -> Result<(), String> {
    let is_bound = write.before["status"]["phase"] == "Bound";
    ensure(!write.drops("kubernetes.io/pv-protection") || !is_bound, || "it is bound".to_owned())
}

fn class_in_use(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.drops("kubernetes.io/vac-protection") {
        return Ok(());
    }
    let uses = |object: &Arc<Value>| {
        let named = [
            &object["spec"]["volumeAttributesClassName"],
            &object["status"]["currentVolumeAttributesClassName"],
        ];
        named.into_iter().any(|class| text(class) == write.name)
    };
    let user = state.list("", CLAIMS, None).into_iter().chain(state.list("", VOLUMES, None)).find(uses);
    ensure(user.is_none(), || format!("{} uses it", user.as_deref().map_or("", name)))
}

fn made_for_pod(state: &ServerState, write: &Write) -> Result<(), String> {
    let pods = state.versions("", "pods", manager(&write.after));
    let pod = pods.last().ok_or("it belongs to no pod")?;
    ensure(claims(pod).contains(&write.name), || format!("{} has no such volume", name(pod)))
}

fn nothing(_: &ServerState, _: &Write) -> Result<(), String> {
    Err("it writes".to_owned())
}
