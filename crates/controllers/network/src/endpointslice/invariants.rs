//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use std::collections::BTreeSet;

use flyball_runtime::all_hold;

use super::packing::Changes;
use crate::addresses::Family;
use crate::slices::Identity;

/// Checks the changes. `capacity` is the limit of endpoints in one slice.
pub fn check(changes: &[(Family, Changes<'_>)], capacity: usize) -> Result<(), String> {
    let mut broken = vec![];
    for (family, changes) in changes {
        if changes.after().next().is_none() {
            broken.push(format!("{family:?}: no slice is left"));
        }
        let mut seen = BTreeSet::new();
        for slice in changes.after() {
            if slice.address_type != family.as_str() {
                broken.push(format!("{family:?}: a slice of {}", slice.address_type));
            }
            if slice.endpoints.len() > capacity {
                broken.push(format!("{family:?}: {} endpoints in one slice", slice.endpoints.len()));
            }
            for endpoint in &slice.endpoints {
                if !seen.insert((slice.ports.clone(), Identity::of(endpoint))) {
                    broken.push(format!("{family:?}: {:?} is published twice", endpoint.addresses));
                }
            }
        }
    }
    all_hold(broken)
}
