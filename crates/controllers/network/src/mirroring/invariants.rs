//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::EndpointSlice;
use flyball_runtime::all_hold;

use super::mirror::Mirror;
use super::plan::View;
use crate::addresses;
use crate::slices::sorted;

/// The slices after the changes; new ones have no names yet.
pub fn after<'a>(view: &View<'a>, mirror: &'a Mirror<'a>) -> Vec<&'a EndpointSlice> {
    let name = |slice: &EndpointSlice| slice.metadata.name.clone();
    let touched: BTreeSet<_> =
        mirror.update.iter().map(name).chain(mirror.delete.iter().map(|slice| name(slice))).collect();
    let kept = view.slices.iter().map(Arc::as_ref).filter(|slice| !touched.contains(&slice.metadata.name));
    kept.chain(&mirror.update).chain(&mirror.create).collect()
}

pub fn check(view: &View<'_>, mirror: &Mirror<'_>) -> Result<(), String> {
    let mut broken = vec![];
    let mut groups = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for slice in after(view, mirror) {
        let kind = &slice.address_type;
        if !groups.insert((kind.clone(), sorted(slice.ports.clone()))) {
            broken.push(format!("two slices of {kind} have the ports {:?}", slice.ports));
        }
        if slice.endpoints.is_empty() {
            broken.push(format!("the slice with the ports {:?} has no endpoint", slice.ports));
        }
        for address in slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses) {
            if addresses::parse(address).is_none_or(|(family, _)| family.as_str() != *kind) {
                broken.push(format!("{address} in a slice of {kind}"));
            }
            for port in slice.ports.iter().map(|port| port.port) {
                shown.insert((address.clone(), port));
            }
        }
    }
    let published = published(view);
    broken.extend(
        shown.difference(&published).map(|pair| format!("{pair:?} is mirrored, but not in the Endpoints")),
    );
    if mirror.skipped == 0 {
        broken.extend(published.difference(&shown).map(|pair| format!("{pair:?} is not mirrored")));
    }
    all_hold(broken)
}

/// Every address in the Endpoints, with each of its ports.
fn published(view: &View<'_>) -> BTreeSet<(smol_str::SmolStr, Option<i32>)> {
    let mut published = BTreeSet::new();
    for subset in view.endpoints.iter().flat_map(|endpoints| &endpoints.subsets) {
        for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
            let Some((_, ip)) = addresses::parse(&address.ip) else { continue };
            published.extend(subset.ports.iter().map(|port| (ip.clone(), Some(port.port))));
        }
    }
    published
}
