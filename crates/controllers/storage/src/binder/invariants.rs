//! What must hold after every step, for tables and simulator alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim};

use super::matching::{is_promised, size};
use crate::names::{BOUND, BOUND_BY_CONTROLLER};

/// What is wrong with the claims and volumes of a cluster; empty when nothing is.
pub fn broken(claims: &[Arc<PersistentVolumeClaim>], volumes: &[Arc<PersistentVolume>]) -> Vec<String> {
    let volumes: BTreeMap<&str, _> =
        volumes.iter().map(|volume| (volume.metadata.name.as_str(), volume)).collect();
    let (mut broken, mut owners) = (vec![], BTreeMap::new());
    for claim in claims.iter().filter(|claim| claim.status.phase == BOUND) {
        let (key, name) = (claim.metadata.key(), claim.spec.volume_name.as_str());
        match volumes.get(name) {
            None => broken.push(format!("{key} has {name}, which is not there")),
            Some(volume) if !is_promised(volume, claim) => {
                broken.push(format!("{key} has {name}, which is another's"));
            }
            Some(volume) if was_given(claim) && is_too_small(volume, claim) => {
                broken.push(format!("{key} has {name}, which is too small"));
            }
            Some(_) => {}
        }
        if let Some(other) = owners.insert(name, key.clone()) {
            broken.push(format!("{key} and {other} both have {name}"));
        }
    }
    broken
}

/// Whether a controller chose its volume: what users have tied together is left to them.
fn was_given(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.annotations.contains_key(BOUND_BY_CONTROLLER)
}

fn is_too_small(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    size(&volume.spec.capacity) < size(&claim.spec.resources.requests)
}
