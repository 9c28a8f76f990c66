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

/// What expands a claim.
enum Expander<'a> {
    /// Unknown, as the claim is not bound to its volume.
    Unknown,
    /// Nothing, as it has what it asks for.
    Nothing,
    /// The CSI driver that has replaced an in-tree plugin.
    Migrated {
        plugin: &'static str,
        driver: &'static str,
    },
    External,
    /// This controller, and the node of its pod.
    Flex {
        volume: &'a PersistentVolume,
        driver: String,
    },
}

fn expander<'a>(view: &View<'a>) -> Expander<'a> {
    let Some(volume) = view.volume.filter(|volume| is_bound(view.claim, volume)) else {
        return Expander::Unknown;
    };
    if requested(view.claim) <= capacity(view.claim) && !volume.metadata.annotations.contains_key(PRE_RESIZE)
    {
        return Expander::Nothing;
    }
    if let Some((plugin, driver)) = migration::of_volume(volume) {
        return Expander::Migrated { plugin, driver };
    }
    flex::driver(volume).map_or(Expander::External, |driver| Expander::Flex { volume, driver })
}

/// Leaves a claim that is to be expanded to an external resizer, or takes the next step for a FlexVolume.
pub fn plan(view: &View<'_>) -> Plan {
    let (claim, key) = (view.claim, view.claim.key());
    let resizer = || Waiting::on::<PersistentVolumeClaim>(&key, "to be expanded by an external resizer");
    match expander(view) {
        Expander::Unknown => {
            let name = Key::cluster(claim.spec.volume_name.as_str());
            let message = format!("persistent Volume is not bound to PVC being updated : {key}");
            let waiting = Waiting::on::<PersistentVolume>(&name, "to be bound to the claim");
            Plan::of([Effect::NotYet(message)]).waiting_for([waiting])
        }
        Expander::Nothing => Plan::default(),
        Expander::Migrated { plugin, driver } => {
            let message =
                format!("CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc");
            let event = Effect::from(Event::normal(EXTERNAL, message));
            let effects = std::iter::once(event).chain(annotate(claim, driver).map(Effect::from));
            Plan::of(effects).waiting_for([resizer()])
        }
        Expander::External => {
            let message = "waiting for an external controller to expand this PVC";
            Plan::of([Event::normal(EXTERNAL, message)]).waiting_for([resizer()])
        }
        Expander::Flex { volume, driver } => flex::plan(&step_of(view, volume, &driver), view.now),
    }
}

fn step_of<'a>(view: &View<'a>, volume: &'a PersistentVolume, driver: &'a str) -> flex::Flex<'a> {
    flex::Flex { claim: view.claim, volume, driver, recovers: view.recovers }
}

/// The FlexVolume driver whose operation the plan is, for metrics; `None` if it is none.
pub fn operation(view: &View<'_>) -> Option<String> {
    match expander(view) {
        Expander::Flex { volume, driver } if flex::is_operation(&step_of(view, volume, &driver)) => {
            Some(driver)
        }
        _ => None,
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
    let doing = format!("error setting resizer annotation to pvc {}, with error ", claim.key());
    let failure = doing.clone() + &refused(claim);
    let patch = patch_claim(claim, patch, &doing).why("a driver expands it");
    Some(patch.on_failure(Event::warning(EXTERNAL, Message::ThenError(failure))))
}

/// A patch of metadata and status of a claim, with the resourceVersion of the cached claim as precondition. `doing` begins the text of
/// a failure.
pub(super) fn patch_claim(claim: &PersistentVolumeClaim, mut patch: Value, doing: &str) -> Write {
    patch["metadata"]["resourceVersion"] = json!(format_smolstr!("{}", claim.metadata.resource_version));
    Write::patch::<PersistentVolumeClaim>(claim.key(), Patch::Merge(patch))
        .subresource("status")
        .failure_prefix(doing.to_owned() + &refused(claim))
}

/// A patch of metadata and status of a claim that an earlier effect has patched.
pub(super) fn patch_claim_again(claim: &PersistentVolumeClaim, patch: Value, doing: &str) -> Write {
    Write::patch_after_write::<PersistentVolumeClaim>(claim.key(), patch)
        .subresource("status")
        .failure_prefix(doing.to_owned() + &refused(claim))
}

/// Upstream: volume/util/resize_util.go, PatchPVCStatus.
fn refused(claim: &PersistentVolumeClaim) -> String {
    format!("patchPVCStatus failed to patch PVC {:?}: ", claim.metadata.name)
}
