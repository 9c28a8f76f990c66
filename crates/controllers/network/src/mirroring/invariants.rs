//! What must hold after every step, for tables and simulator alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::EndpointSlice;

use super::plan::{Plan, View};
use crate::addresses;
use crate::slices::sorted;

/// The mirror after a plan was carried out; new slices still have no names.
pub fn after<'a>(view: &View<'a>, plan: &'a Plan<'a>) -> Vec<&'a EndpointSlice> {
    let name = |slice: &EndpointSlice| slice.metadata.name.clone();
    let touched: BTreeSet<_> =
        plan.update.iter().map(name).chain(plan.delete.iter().map(|slice| name(slice))).collect();
    let kept = view.slices.iter().map(Arc::as_ref).filter(|slice| !touched.contains(&slice.metadata.name));
    kept.chain(&plan.update).chain(&plan.create).collect()
}

/// What is wrong with a plan; empty when nothing is.
pub fn broken(view: &View<'_>, plan: &Plan<'_>) -> Vec<String> {
    let mut broken = vec![];
    let mut groups = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for slice in after(view, plan) {
        let kind = &slice.address_type;
        if !groups.insert((kind.clone(), sorted(slice.ports.clone()))) {
            broken.push(format!("two slices of {kind} have the ports {:?}", slice.ports));
        }
        if slice.endpoints.is_empty() {
            broken.push(format!("a mirror of nothing: {:?}", slice.ports));
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
    let said = said(view);
    broken.extend(shown.difference(&said).map(|pair| format!("{pair:?} is mirrored, but nobody said it")));
    if plan.skipped == 0 {
        broken.extend(said.difference(&shown).map(|pair| format!("{pair:?} is not mirrored")));
    }
    broken
}

/// Every address with every port of it that the Endpoints name.
fn said(view: &View<'_>) -> BTreeSet<(smol_str::SmolStr, Option<i32>)> {
    let mut said = BTreeSet::new();
    for subset in &view.endpoints.subsets {
        for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
            let Some((_, ip)) = addresses::parse(&address.ip) else { continue };
            said.extend(subset.ports.iter().map(|port| (ip.clone(), Some(port.port))));
        }
    }
    said
}
