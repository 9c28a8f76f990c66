//! What must hold for every plan for a claim, and for all claims and volumes after every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim};

use super::claim::{Step, View, step};
use super::matching::{is_promised, size};
use crate::names::{BOUND, BOUND_BY_CONTROLLER};

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
