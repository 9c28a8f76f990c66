//! What must hold after every step, for tables and simulator alike.

use std::collections::BTreeSet;

use super::plan::Plan;
use crate::slices::Identity;

/// What is wrong with a plan; empty when nothing is. `capacity` is the limit of endpoints in one slice.
pub fn broken(plan: &Plan<'_>, capacity: usize) -> Vec<String> {
    let mut broken = vec![];
    for (family, changes) in &plan.families {
        let kept = changes.unchanged.iter().copied();
        let after: Vec<_> = changes.create.iter().chain(&changes.update).chain(kept).collect();
        if after.is_empty() {
            broken.push(format!("{family:?}: no slice is left"));
        }
        let mut seen = BTreeSet::new();
        for slice in after {
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
    broken
}
