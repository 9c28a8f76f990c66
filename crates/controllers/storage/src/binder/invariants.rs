//! What must hold for every plan for a claim or a volume, and for all claims and volumes after every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Object, PersistentVolume, PersistentVolumeClaim, Resource};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Plan, Write};

use super::claim::{Step, View, step};
use super::matching::{is_promised, size};
use super::volume::{self, Policy, policy};
use super::writes::Tag;
use crate::names::{BOUND, BOUND_BY_CONTROLLER, RELEASED};

/// Checks all claims and volumes of a cluster: a bound claim has a volume of its own, which is large enough.
///
/// # Errors
/// All violations, in words.
pub fn check_bindings(
    claims: &[Arc<PersistentVolumeClaim>],
    volumes: &[Arc<PersistentVolume>],
) -> Result<(), String> {
    let volumes: BTreeMap<&str, _> =
        volumes.iter().map(|volume| (volume.metadata.name.as_str(), volume)).collect();
    let (mut violations, mut claim_of) = (vec![], BTreeMap::new());
    for claim in claims.iter().filter(|claim| claim.status.phase == BOUND) {
        let (key, name) = (claim.metadata.key(), claim.spec.volume_name.as_str());
        match volumes.get(name) {
            None => violations.push(format!("{key} is bound to {name}, which does not exist")),
            Some(volume) if !is_promised(volume, claim) => {
                violations.push(format!("{key} is bound to {name}, which has another claimRef"));
            }
            Some(volume) if is_chosen_by_controller(claim) && is_too_small(volume, claim) => {
                violations.push(format!("{key} is bound to {name}, which is too small"));
            }
            Some(_) => {}
        }
        if let Some(other) = claim_of.insert(name, key.clone()) {
            violations.push(format!("{key} and {other} are both bound to {name}"));
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(violations.join("; ")) }
}

/// Whether a controller, not a user, has chosen the volume of a claim.
fn is_chosen_by_controller(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER)
}

fn is_too_small(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    size(&volume.spec.capacity) < size(&claim.spec.resources.requests)
}

/// Checks the next step for a claim.
///
/// # Errors
/// The invariant that is broken, in words.
pub(crate) fn check(view: &View<'_>) -> Result<(), String> {
    let Step::Bind(volume) = step(view) else { return Ok(()) };
    let claim = view.claim;
    let rules = [
        (
            "a claim gets no volume of another claim",
            volume.spec.claim_ref.is_none() || is_promised(volume, claim),
        ),
        (
            "a claim that names a volume gets that one",
            claim.spec.volume_name.is_empty() || claim.spec.volume_name == volume.metadata.name,
        ),
        (
            "a volume that is chosen is large enough",
            !claim.spec.volume_name.is_empty() || !is_too_small(volume, claim),
        ),
    ];
    let violated = rules.iter().find(|(_, holds)| !holds);
    violated.map_or(Ok(()), |(rule, _)| {
        Err(format!("{rule}: {} for {}", volume.metadata.name, claim.metadata.key()))
    })
}

/// Checks the plan for a volume.
///
/// # Errors
/// The invariant that is broken, in words.
pub(crate) fn check_volume(view: &volume::View, plan: &Plan<Tag>) -> Result<(), String> {
    let (volume, live) = (&view.volume, view.live.as_ref());
    let claim = match &view.live_claim {
        Some(live) => live.as_ref(),
        None => view.cached.as_ref(),
    };
    let is_claimed = claim.is_some_and(|claim| has(claim, volume))
        || live.is_some_and(|live| {
            live.claim.as_ref().zip(live.volume.as_ref()).is_some_and(|(claim, volume)| has(claim, volume))
        });
    let is_used =
        live.is_some_and(|live| live.claim.is_none() && live.pods.iter().any(|pod| !pod.has_stopped()));
    let deletes = |write: &Write<Tag>| {
        write.resource == PersistentVolume::TYPE && matches!(write.operation, Operation::Delete(_))
    };
    let is_this_one = |write: &Write<Tag>| {
        let uid = live.and_then(|live| live.volume.as_ref()).map(|volume| volume.uid());
        matches!(&write.operation, Operation::Delete(options) if uid.is_some() && options.uid.as_ref() == uid)
    };
    let releases = |write: &Write<Tag>| matches!(&write.tag, Tag::Volume(after) if after.status.phase == RELEASED && volume.status.phase != RELEASED);
    let recycles = |write: &Write<Tag>| matches!(write.tag, Tag::Pod);
    let never = |is: &dyn Fn(&Write<Tag>) -> bool| !plan.writes().into_iter().any(is);
    let rules = [
        ("a volume is not released while a claim has it", !is_claimed || never(&releases)),
        ("a volume is not deleted while a claim has it", !is_claimed || never(&deletes)),
        ("a volume is not emptied while a claim has it", !is_claimed || never(&recycles)),
        ("a volume is not emptied while a pod uses it", !is_used || never(&recycles)),
        ("a volume is deleted after its storage", view.removed == Some(Ok(())) || never(&deletes)),
        (
            "a volume is deleted by its uid",
            never(&|write: &Write<Tag>| deletes(write) && !is_this_one(write)),
        ),
        ("a volume is deleted if its policy says so", policy(volume) == Policy::Delete || never(&deletes)),
        ("a volume is emptied if its policy says so", policy(volume) == Policy::Recycle || never(&recycles)),
    ];
    let broken = rules.iter().find(|(_, holds)| !holds);
    broken.map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {} of {}", plan, volume.metadata.name)))
}

/// Whether a claim is the one that a volume refers to, and names the volume.
fn has(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let is_meant =
        volume.spec.claim_ref.as_ref().is_some_and(|reference| reference.uid == claim.metadata.uid);
    is_meant && claim.spec.volume_name == volume.metadata.name
}
