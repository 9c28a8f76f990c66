//! Who makes a claim grow, and how far a FlexVolume has got. Pure.

use flyball_api::{PersistentVolume, PersistentVolumeClaim, Quantity};
use serde_json::Value;

use crate::binder::size;
use crate::migration;
use crate::names::{PRE_RESIZE, STORAGE};

/// What is to be done for a claim.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// It has what it asks for.
    Nothing,
    /// A driver that took over from a plugin makes it grow.
    Hand {
        plugin: &'static str,
        driver: &'static str,
    },
    /// Somebody outside makes it grow.
    Leave,
    Flex {
        driver: String,
        step: Step,
    },
}

/// The next step in the growing of a FlexVolume.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Its node is at work, or will be.
    Wait,
    /// Its node is done; what the volume says about its former size can go.
    Clear,
    /// Its node has failed and is to try again.
    Retry,
    /// It is to grow to this size.
    Grow(Quantity),
}

/// How much a claim asks for.
pub fn wanted(claim: &PersistentVolumeClaim) -> Quantity {
    size(&claim.spec.resources.requests)
}

/// How much a claim has.
pub fn held(claim: &PersistentVolumeClaim) -> Quantity {
    size(&claim.status.capacity)
}

/// What is to be done for a claim that is bound to a volume.
pub fn plan(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Action {
    let is_noted = volume.metadata.annotations.contains_key(PRE_RESIZE);
    if wanted(claim) <= held(claim) && !is_noted {
        return Action::Nothing;
    }
    if let Some((plugin, driver)) = migration::of_volume(volume) {
        return Action::Hand { plugin, driver };
    }
    match flex_driver(volume) {
        None => Action::Leave,
        Some(driver) => Action::Flex { driver, step: step(claim, volume, is_noted) },
    }
}

/// Whether a volume is bound to a claim.
pub fn is_bound(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        reference.namespace == claim.metadata.namespace && reference.uid == claim.metadata.uid
    })
}

/// The driver of a FlexVolume.
fn flex_driver(volume: &PersistentVolume) -> Option<String> {
    let spec = volume.spec.raw().to_value();
    let source = spec.get("flexVolume").filter(|source| source.is_object())?;
    Some(source.get("driver").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// A claim that was shrunk again while it grew is finished at the size that it grew to.
///
/// Upstream: operationexecutor.expandAndRecoverFunction.
fn step(claim: &PersistentVolumeClaim, volume: &PersistentVolume, is_noted: bool) -> Step {
    let (wanted, held, capacity) = (wanted(claim), held(claim), size(&volume.spec.capacity));
    if is_noted && held >= wanted && held >= capacity {
        return Step::Clear;
    }
    let state = claim.status.allocated_resource_statuses.get(STORAGE).unwrap_or_default();
    let allocated = claim.status.allocated_resources.get(STORAGE).unwrap_or(wanted);
    match (capacity < wanted, state) {
        (
            true,
            "ControllerResizeInProgress"
            | "NodeResizePending"
            | "NodeResizeInProgress"
            | "NodeResizeInfeasible",
        ) => Step::Grow(allocated),
        (true, _) => Step::Grow(wanted),
        (false, "NodeResizeInProgress" | "NodeResizePending") => Step::Wait,
        (false, "NodeResizeInfeasible") => Step::Retry,
        (false, "ControllerResizeInProgress" | "ControllerResizeInfeasible" | "") => Step::Grow(allocated),
        (false, _) => Step::Grow(wanted),
    }
}
