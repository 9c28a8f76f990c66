//! Which component expands a claim. Pure.

use flyball_api::{Key, Object, PersistentVolume, PersistentVolumeClaim, Quantity, Timestamp};
use flyball_client::Patch;
use flyball_runtime::{Effect, Event, Message, Plan, Waiting, Write};
use serde_json::{Value, json};
use smol_str::format_smolstr;

use super::flex;
use crate::binder::size;
use crate::migration;
use crate::names::PRE_RESIZE;

/// On a claim: the component that expands it.
pub(super) const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
const EXTERNAL: &str = "ExternalExpanding";

/// Everything that the decision depends on.
pub struct View<'a> {
    pub claim: &'a PersistentVolumeClaim,
    /// The volume that the claim names.
    pub volume: Option<&'a PersistentVolume>,
    /// Whether the progress of an expansion is recorded in `status.allocatedResources`, so that users can reduce a request that cannot
    /// be met (RecoverVolumeExpansionFailure, which can be disabled with `--emulated-version` 1.33).
    pub recovers: bool,
    pub now: Timestamp,
}

/// The storage that a claim requests.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    size(&claim.spec.resources.requests)
}

/// How much a claim has.
pub fn capacity(claim: &PersistentVolumeClaim) -> Quantity {
    size(&claim.status.capacity)
}

/// Leaves a claim that is to be expanded to an external resizer, or takes the next step for a FlexVolume.
pub fn plan(view: &View<'_>) -> Plan {
    let (claim, key) = (view.claim, view.claim.key());
    let Some(volume) = view.volume.filter(|volume| is_bound(claim, volume)) else {
        let name = Key::cluster(claim.spec.volume_name.as_str());
        let message = format!("persistent Volume is not bound to PVC being updated : {key}");
        let waiting = Waiting::on::<PersistentVolume>(&name, "to be bound to the claim");
        return Plan::of([Effect::NotYet(message)]).waiting_for([waiting]);
    };
    if requested(claim) <= capacity(claim) && !volume.metadata.annotations.contains_key(PRE_RESIZE) {
        return Plan::default();
    }
    let resizer = || Waiting::on::<PersistentVolumeClaim>(&key, "to be expanded by an external resizer");
    if let Some((plugin, driver)) = migration::of_volume(volume) {
        let message =
            format!("CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc");
        let event = Effect::from(Event::normal(EXTERNAL, message));
        let effects = std::iter::once(event).chain(annotate(claim, driver).map(Effect::from));
        return Plan::of(effects).waiting_for([resizer()]);
    }
    match flex::driver(volume) {
        None => {
            let message = "waiting for an external controller to expand this PVC";
            Plan::of([Event::normal(EXTERNAL, message)]).waiting_for([resizer()])
        }
        Some(driver) => {
            flex::plan(&flex::Flex { claim, volume, driver: &driver, recovers: view.recovers }, view.now)
        }
    }
}

/// Whether a volume is bound to a claim.
fn is_bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        reference.namespace == claim.metadata.namespace && reference.uid == claim.metadata.uid
    })
}

/// The patch that names the driver which expands a claim; `None` if the claim names it.
fn annotate(claim: &PersistentVolumeClaim, driver: &str) -> Option<Write> {
    if claim.metadata.annotations.get(RESIZER) == Some(driver) {
        return None;
    }
    let patch = json!({"metadata": {"annotations": {RESIZER: driver}}});
    let key = claim.key();
    let failure = format!("error setting resizer annotation to pvc {key}, with error {}", prefix(&key));
    let patch = patch_claim(claim, patch).why("a driver expands it");
    Some(patch.on_failure(Event::warning(EXTERNAL, Message::ThenError(failure))))
}

/// A patch of metadata and status of a claim, with the resourceVersion of the cached claim as precondition.
pub(super) fn patch_claim(claim: &PersistentVolumeClaim, mut patch: Value) -> Write {
    patch["metadata"]["resourceVersion"] = json!(format_smolstr!("{}", claim.metadata.resource_version));
    let key = claim.key();
    let prefix = prefix(&key);
    Write::patch::<PersistentVolumeClaim>(key, Patch::Merge(patch))
        .subresource("status")
        .failure_prefix(prefix)
}

/// A patch of metadata and status of a claim that an earlier effect has patched.
pub(super) fn patch_claim_again(claim: &PersistentVolumeClaim, patch: Value) -> Write {
    let key = claim.key();
    let prefix = prefix(&key);
    Write::patch_after_write::<PersistentVolumeClaim>(key, patch).subresource("status").failure_prefix(prefix)
}

fn prefix(claim: &Key) -> String {
    format!("patching the status of claim {claim}: ")
}
