//! Provisioning: an annotation requests a volume from an external provisioner; a host path volume is created here. Pure.

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, Resource, StorageClass};
use flyball_client::Verb;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Outcome, Plan, Write};
use serde_json::{Value, json};

use super::claim::{Step, View, step};
use super::plugins::{HOST_PATH, Provisioner};
use super::writes::{self, Tag};
use super::{edit, host_path, matching};
use crate::class;
use crate::names::{BOUND_BY_CONTROLLER, IN_TREE_FINALIZER, PROVISIONED_BY, SELECTED_NODE, STORAGE};

const FAILED: &str = "ProvisioningFailed";

/// What is known about provisioning for one claim.
#[derive(Debug, Default)]
pub(crate) struct Provisioning {
    /// Whether volumes may be provisioned at all.
    pub(crate) is_enabled: bool,
    pub(crate) is_host_path_enabled: bool,
    /// Whether the last attempt has failed and the next one is not due.
    pub(crate) is_backing_off: bool,
    /// Whether the node that the scheduler has selected is missing.
    pub(crate) is_node_missing: bool,
    /// Whether the server has the volume already, once it was read.
    pub(crate) volume_exists: Option<bool>,
    /// Whether the directory was created, once that was tried.
    pub(crate) directory: Option<Result<(), String>>,
}

/// What has to be read or done before it can be planned how to create a host path volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Whether the server has this volume.
    Volume(Key),
    /// A directory. It is created before its volume, so that the volume can be used at once.
    Directory { path: String, mode: String },
}

/// What is needed next; `None` when [`plan`] has everything that it needs.
pub(crate) fn need(view: &View<'_>) -> Option<Need> {
    let (Step::Provision(Provisioner::HostPath), claim, known) = (step(view), view.claim, &view.provisioning)
    else {
        return None;
    };
    let is_settled =
        known.is_backing_off || is_cloned(claim) || edit::with_provisioner(claim, HOST_PATH).is_some();
    match known.volume_exists {
        _ if is_settled => None,
        None => Some(Need::Volume(volume_key(claim))),
        Some(true) => None,
        Some(false) if known.directory.is_some() || obstacle(view).is_some() => None,
        Some(false) => {
            let mode = matching::mode(claim.spec.volume_mode.as_ref()).to_owned();
            Some(Need::Directory { path: host_path::path_for(claim), mode })
        }
    }
}

/// Asks the provisioner for a volume, or creates the volume.
pub(super) fn plan(view: &View<'_>, provisioner: &Provisioner) -> Plan<Tag> {
    match (provisioner, view.class) {
        (Provisioner::External(name), _) => {
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{name}' or manually by the \
                 system administrator. If volume creation is delayed, please verify that the provisioner is running \
                 and correctly registered."
            );
            let event = Effect::from(Event::normal("ExternalProvisioning", message));
            let failed = Event::warning(FAILED, Message::ThenError("Error saving claim: ".into()));
            let request = request_provisioning(view.claim, name);
            let request = request.map(|write| write.on_failure(failed).no_event_for(ErrorKinds::CONFLICT));
            Plan::of(request.map(Effect::from).into_iter().chain([event]))
        }
        (Provisioner::HostPath, Some(class)) => create(view, class),
        (Provisioner::HostPath, None) => Plan::default(),
    }
}

/// Why provisioning has failed before the volume could be created. The operation backs off.
pub(super) fn failure(view: &View<'_>) -> Option<String> {
    if view.provisioning.is_backing_off {
        return None;
    }
    if is_cloned(view.claim) {
        let only = "Only CSI plugin can provision a claim with a datasource";
        return Some(format!("plugin {HOST_PATH:?} is not a CSI plugin. {only}"));
    }
    let known = &view.provisioning;
    match (&known.directory, view.class, known.volume_exists) {
        (Some(Err(why)), Some(class), _) => {
            Some(format!("Failed to provision volume with StorageClass {:?}: {why}", class.metadata.name))
        }
        (None, _, Some(false)) => obstacle(view),
        _ => None,
    }
}

/// The annotations that ask a provisioner for a volume; `None` if the claim has them.
fn request_provisioning(claim: &PersistentVolumeClaim, provisioner: &str) -> Option<Write<Tag>> {
    let claim = edit::with_provisioner(claim, provisioner)?;
    Some(writes::claim(claim, "a provisioner is to create a volume for it"))
}

/// The next write for a host path volume. Each of them brings the claim back for the next.
fn create(view: &View<'_>, class: &StorageClass) -> Plan<Tag> {
    let (claim, known) = (view.claim, &view.provisioning);
    if let Some(why) = failure(view) {
        let deselect = deselect(claim).filter(|_| known.directory.is_some()).map(Effect::from);
        let event = Effect::from(Event::warning(FAILED, why));
        return Plan::of(std::iter::once(event).chain(deselect));
    }
    if known.is_backing_off {
        return Plan::default();
    }
    if let Some(request) = request_provisioning(claim, HOST_PATH) {
        return Plan::of([request]);
    }
    if known.directory != Some(Ok(())) {
        return Plan::default();
    }
    let key = volume_key(claim);
    let message = format!("Successfully provisioned volume {key} using {HOST_PATH}");
    let body = manifest(&key, claim, class);
    Plan::of([Write::create::<PersistentVolume>(key, body)
        .why("a claim needs it")
        .ignore(ErrorKinds::ALREADY_EXISTS)
        .on_success(Event::normal("ProvisioningSucceeded", message))
        .tag(Tag::Other)])
}

/// Why the server has refused the host path volume; `None` if it has it, or may have it.
pub(super) fn refusal(outcome: &Outcome<Tag>) -> Option<&str> {
    let failure = outcome.failures.iter().find(|failure| failure.verb == Some(Verb::Create))?;
    (!failure.is_one_of(ErrorKinds::OUTCOME_UNKNOWN | ErrorKinds::OUTDATED)).then_some(&failure.message)
}

/// What follows when the server has refused the volume. `removed` says whether the directory could be removed again.
pub(super) fn after_refusal(claim: &Key, why: &str, removed: Result<(), String>) -> Vec<Event> {
    let failed =
        format!("Error creating provisioned PV object for claim {claim}: {why}. Deleting the volume.");
    let left = removed.err().map(|why| {
        let left =
            format!("Error cleaning provisioned volume for claim {claim}: {why}. Please delete manually.");
        Event::warning("ProvisioningCleanupFailed", left)
    });
    [Event::warning(FAILED, failed)].into_iter().chain(left).collect()
}

/// Whether a claim is to be filled with the data of another object.
fn is_cloned(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.data_source.is_some()
}

/// The volume that is provisioned for a claim.
pub(super) fn volume_key(claim: &PersistentVolumeClaim) -> Key {
    Key::cluster(format!("pvc-{}", claim.metadata.uid))
}

/// Why no directory can be created for a claim.
fn obstacle(view: &View<'_>) -> Option<String> {
    let class = view.class?;
    if !class.mount_options.is_empty() {
        let (name, options) = (&class.metadata.name, class.mount_options.join(" "));
        let refused = "Mount options are not supported by the provisioner";
        return Some(format!("{refused} but StorageClass {name:?} has mount options [{options}]"));
    }
    if !view.provisioning.is_host_path_enabled {
        let why = format!("provisioning in volume plugin {HOST_PATH:?} is disabled");
        return Some(format!("Failed to create provisioner: {why}"));
    }
    let node =
        view.claim.metadata.annotations.get(SELECTED_NODE).filter(|_| view.provisioning.is_node_missing)?;
    Some(format!("Failed to get target node: node {node:?} not found"))
}

/// Lets the scheduler select another node, if it has selected one.
fn deselect(claim: &PersistentVolumeClaim) -> Option<Write<Tag>> {
    if !claim.metadata.annotations.contains_key(SELECTED_NODE) {
        return None;
    }
    let mut open = claim.clone();
    open.metadata.annotations = open.metadata.annotations.without(SELECTED_NODE);
    Some(writes::claim(open, "no volume can be created for its node"))
}

fn manifest(name: &Key, claim: &PersistentVolumeClaim, class: &StorageClass) -> Value {
    let kind = PersistentVolume::TYPE;
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let finalizers: &[&str] = if policy == "Delete" { &[IN_TREE_FINALIZER] } else { &[] };
    let modes = match claim.spec.access_modes.is_empty() {
        true => json!(["ReadWriteOnce"]),
        false => json!(claim.spec.access_modes),
    };
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": name.name,
            "annotations": {
                "kubernetes.io/createdby": "hostpath-dynamic-provisioner",
                BOUND_BY_CONTROLLER: "yes",
                PROVISIONED_BY: HOST_PATH,
            },
            "finalizers": finalizers,
        },
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "accessModes": modes,
            "capacity": {STORAGE: matching::size(&claim.spec.resources.requests)},
            "hostPath": {"path": host_path::path_for(claim)},
            "claimRef": edit::reference(claim),
            "storageClassName": class::of_claim(claim),
        },
    })
}
