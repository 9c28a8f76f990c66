//! The slices that mirror Endpoints: one for each family and set of ports. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_api::endpoint_slice::{Endpoint, EndpointConditions, EndpointPort};
use flyball_api::endpoints::{EndpointAddress, EndpointSubset};
use flyball_api::{EndpointSlice, Endpoints, Labels, Object, ObjectMeta};
use flyball_common::adoption::controller_reference;

use super::MANAGER;
use crate::addresses::{self, Family};
use crate::endpoints::subsets::{pack, unpack};
use crate::names::{LAST_APPLIED, SERVICE_NAME, SLICE_MANAGED_BY, TRIGGER_TIME};
use crate::slices::{Identity, generate_name, is_same, sorted};

/// The changes to the slices of Endpoints, and the addresses that are not mirrored.
#[derive(Debug, Default, PartialEq)]
pub struct Mirror<'a> {
    pub create: Vec<EndpointSlice>,
    pub update: Vec<EndpointSlice>,
    pub delete: Vec<&'a EndpointSlice>,
    /// The number of endpoints after the changes.
    pub endpoints: usize,
    /// The number of slices after the changes.
    pub slices: usize,
    pub totals: Totals,
    /// Addresses that are not IP addresses.
    pub invalid: usize,
    /// All addresses that are not mirrored, invalid ones included.
    pub skipped: usize,
}

/// How many endpoints are added, updated and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub added: usize,
    pub updated: usize,
    pub removed: usize,
}

type Group = (Family, Vec<EndpointPort>);
type Desired = BTreeMap<Identity, Endpoint>;

/// The changes that make the slices equal to the Endpoints. At most `capacity` addresses of a subset are mirrored.
pub fn mirror<'a>(endpoints: &Endpoints, slices: &'a [Arc<EndpointSlice>], capacity: usize) -> Mirror<'a> {
    let mut mirror = Mirror::default();
    let mut groups: BTreeMap<Group, (Desired, Vec<&EndpointSlice>)> = BTreeMap::new();
    let mut kept_ports = BTreeSet::new();
    for subset in pack(unpack(&endpoints.subsets)) {
        let (mirrored, invalid) = endpoints_of(&subset, capacity);
        mirror.invalid += invalid;
        mirror.skipped += subset.addresses.len() + subset.not_ready_addresses.len() - mirrored.len();
        let ports = slice_ports(&subset);
        for (family, endpoint) in mirrored {
            let (desired, _) = groups.entry((family, ports.clone())).or_default();
            desired.insert(Identity::of(&endpoint), endpoint);
        }
        kept_ports.insert(ports);
    }
    for slice in slices.iter().map(Arc::as_ref) {
        let family = Family::named(&slice.address_type).unwrap_or(Family::V4);
        groups.entry((family, sorted(slice.ports.clone()))).or_default().1.push(slice);
    }
    for (group, (desired, slices)) in groups {
        // Upstream: reconciler.go, reconcile: endpoints with ports that no subset has any more are not counted.
        if desired.is_empty() && kept_ports.contains(&group.1) {
            mirror.totals.removed += slices.iter().map(|slice| slice.endpoints.len()).sum::<usize>();
        }
        reconcile_group(endpoints, group, desired, &slices, &mut mirror);
    }
    reuse_deleted(&mut mirror);
    mirror
}

/// The changes to the slices of one family and set of ports.
fn reconcile_group<'a>(
    endpoints: &Endpoints,
    group: Group,
    desired: Desired,
    slices: &[&'a EndpointSlice],
    mirror: &mut Mirror<'a>,
) {
    let [first, surplus @ ..] = slices else {
        mirror.totals.added += desired.len();
        mirror.endpoints += desired.len();
        mirror.slices += 1;
        return mirror.create.push(new_slice(endpoints, group, desired));
    };
    mirror.delete.extend(surplus);
    if desired.is_empty() {
        return mirror.delete.push(first);
    }
    mirror.endpoints += desired.len();
    mirror.slices += 1;
    let totals = compare(first, &desired);
    mirror.totals.added += totals.added;
    mirror.totals.updated += totals.updated;
    mirror.totals.removed += totals.removed;
    let mut wanted = new_slice(endpoints, group, desired);
    // Upstream leaves generateName out of updates.
    wanted.metadata.generate_name = Default::default();
    let is_up_to_date = totals == Totals::default()
        && first.metadata.labels == wanted.metadata.labels
        && first.metadata.annotations == wanted.metadata.annotations
        && !has_other_owner(first, endpoints);
    if !is_up_to_date {
        mirror.update.push(under_name_of(first, wanted));
    }
}

fn compare(slice: &EndpointSlice, desired: &Desired) -> Totals {
    let mut totals = Totals::default();
    for endpoint in &slice.endpoints {
        match desired.get(&Identity::of(endpoint)) {
            None => totals.removed += 1,
            Some(wanted) if !is_same(wanted, endpoint) => totals.updated += 1,
            Some(_) => {}
        }
    }
    totals.added = (desired.len() + totals.removed).saturating_sub(slice.endpoints.len());
    totals
}

/// Whether a slice belongs to earlier Endpoints of the same name.
fn has_other_owner(slice: &EndpointSlice, endpoints: &Endpoints) -> bool {
    slice.metadata.owner_references.iter().any(|owner| {
        owner.kind == "Endpoints" && owner.name == endpoints.metadata.name && owner.uid != *endpoints.uid()
    })
}

/// Updates slices that would be deleted instead of creating new ones of the same family.
fn reuse_deleted(mirror: &mut Mirror<'_>) {
    for slice in std::mem::take(&mut mirror.create) {
        match mirror.delete.iter().position(|spare| spare.address_type == slice.address_type) {
            Some(at) => mirror.update.push(under_name_of(mirror.delete.remove(at), slice)),
            None => mirror.create.push(slice),
        }
    }
}

fn under_name_of(slice: &EndpointSlice, mut wanted: EndpointSlice) -> EndpointSlice {
    let ObjectMeta { generate_name, labels, annotations, owner_references, .. } = wanted.metadata;
    wanted.metadata =
        ObjectMeta { generate_name, labels, annotations, owner_references, ..slice.metadata.clone() };
    wanted
}

/// The endpoints mirrored from a subset, ready ones first, and the number of invalid addresses among those considered.
fn endpoints_of(subset: &EndpointSubset, capacity: usize) -> (Vec<(Family, Endpoint)>, usize) {
    let ready = subset.addresses.iter().map(|address| (address, true));
    let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
    let (mut mirrored, mut invalid) = (vec![], 0);
    for (address, ready) in ready.chain(not_ready) {
        if mirrored.len() >= capacity {
            break;
        }
        match endpoint(address, ready) {
            Some(endpoint) => mirrored.push(endpoint),
            None => invalid += 1,
        }
    }
    (mirrored, invalid)
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(Family, Endpoint)> {
    let (family, ip) = addresses::parse(&address.ip)?;
    let endpoint = Endpoint {
        addresses: [ip].into(),
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        hostname: Some(address.hostname.clone()).filter(|hostname| !hostname.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((family, endpoint))
}

fn slice_ports(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let ports = subset.ports.iter().map(|port| EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    });
    sorted(ports.collect())
}

fn new_slice(endpoints: &Endpoints, (family, ports): Group, desired: Desired) -> EndpointSlice {
    let ObjectMeta { name, namespace, labels, annotations, .. } = &endpoints.metadata;
    let labels: Labels = labels.with(SERVICE_NAME, name).with(SLICE_MANAGED_BY, MANAGER);
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: generate_name(name),
            namespace: namespace.clone(),
            labels,
            annotations: annotations.without(TRIGGER_TIME).without(LAST_APPLIED),
            owner_references: [controller_reference(endpoints)].into(),
            ..ObjectMeta::default()
        },
        address_type: family.as_str().into(),
        endpoints: desired.into_values().collect(),
        ports,
    }
}
