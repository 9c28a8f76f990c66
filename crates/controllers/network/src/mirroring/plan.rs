//! What the mirror of Endpoints should hold, and which writes bring it there.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::endpoint_slice::{Endpoint, EndpointConditions, EndpointPort};
use flyball_api::endpoints::{EndpointAddress, EndpointSubset};
use flyball_api::{EndpointSlice, Endpoints, Labels, Object, ObjectMeta};
use flyball_common::claim::controller_reference;

use super::MANAGER;
use crate::addresses::{self, Family};
use crate::endpoints::subsets::{pack, unpack};
use crate::names::{LAST_APPLIED, LEADER, SERVICE_NAME, SKIP_MIRROR, SLICE_MANAGED_BY, TRIGGER_TIME};
use crate::slices::{Identity, generate_name, says_the_same, sorted};

/// Everything the decision may look at, borrowed from one snapshot.
pub struct View<'a> {
    pub endpoints: &'a Endpoints,
    /// The mirror as it is.
    pub slices: &'a [Arc<EndpointSlice>],
    /// Addresses mirrored from one subset, at most.
    pub capacity: usize,
}

/// What to do about a mirror, and what of the Endpoints it cannot show.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// To be made; the server names them.
    pub create: Vec<EndpointSlice>,
    /// To be replaced under their names.
    pub update: Vec<EndpointSlice>,
    pub delete: Vec<&'a EndpointSlice>,
    /// Endpoints in the mirror afterwards.
    pub endpoints: usize,
    /// Slices in the mirror afterwards.
    pub slices: usize,
    /// How many endpoints are new, said differently, and gone.
    pub totals: Totals,
    pub invalid: usize,
    /// Addresses that are not mirrored, for whatever reason.
    pub skipped: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub added: usize,
    /// Ones that say something else.
    pub updated: usize,
    pub removed: usize,
}

/// Whether Endpoints ask to be mirrored: neither opted out nor only there to elect a leader.
pub fn is_mirrored(endpoints: &Endpoints) -> bool {
    let ObjectMeta { labels, annotations, .. } = &endpoints.metadata;
    labels.get(SKIP_MIRROR) != Some("true") && !annotations.contains_key(LEADER)
}

type Group = (Family, Vec<EndpointPort>);
type Desired = BTreeMap<Identity, Endpoint>;

/// The changes that make the slices say what the Endpoints say: one slice for each family and set of ports.
pub fn plan<'a>(view: &View<'a>) -> Plan<'a> {
    let mut plan = Plan::default();
    let mut groups: BTreeMap<Group, (Desired, Vec<&EndpointSlice>)> = BTreeMap::new();
    for subset in pack(unpack(&view.endpoints.subsets)) {
        let (mirrored, invalid) = endpoints_of(&subset, view.capacity);
        plan.invalid += invalid;
        plan.skipped += subset.addresses.len() + subset.not_ready_addresses.len() - mirrored.len();
        let ports = slice_ports(&subset);
        for (family, endpoint) in mirrored {
            let (desired, _) = groups.entry((family, ports.clone())).or_default();
            desired.insert(Identity::of(&endpoint), endpoint);
        }
    }
    for slice in view.slices.iter().map(Arc::as_ref) {
        let family = if slice.address_type == Family::V6.as_str() { Family::V6 } else { Family::V4 };
        groups.entry((family, sorted(slice.ports.clone()))).or_default().1.push(slice);
    }
    for ((family, ports), (desired, slices)) in groups {
        mirror(view.endpoints, family, ports, desired, &slices, &mut plan);
    }
    recycle(&mut plan);
    plan
}

/// Brings the slices of one family and set of ports to hold exactly what is desired.
fn mirror<'a>(
    endpoints: &Endpoints,
    family: Family,
    ports: Vec<EndpointPort>,
    desired: Desired,
    slices: &[&'a EndpointSlice],
    plan: &mut Plan<'a>,
) {
    let [first, surplus @ ..] = slices else {
        plan.totals.added += desired.len();
        plan.endpoints += desired.len();
        plan.slices += 1;
        return plan.create.push(new_slice(endpoints, family, ports, desired));
    };
    plan.delete.extend(surplus);
    if desired.is_empty() {
        plan.totals.removed += slices.iter().map(|slice| slice.endpoints.len()).sum::<usize>();
        return plan.delete.push(first);
    }
    plan.endpoints += desired.len();
    plan.slices += 1;
    let totals = compare(first, &desired);
    plan.totals.added += totals.added;
    plan.totals.updated += totals.updated;
    plan.totals.removed += totals.removed;
    let mut wanted = new_slice(endpoints, family, ports, desired);
    // Upstream writes it under its name alone, and the server does not keep what it was made from.
    wanted.metadata.generate_name = Default::default();
    let is_settled = totals == Totals::default()
        && first.metadata.labels == wanted.metadata.labels
        && first.metadata.annotations == wanted.metadata.annotations
        && !is_of_another(first, endpoints);
    if !is_settled {
        plan.update.push(under_name_of(first, wanted));
    }
}

fn compare(slice: &EndpointSlice, desired: &Desired) -> Totals {
    let mut totals = Totals::default();
    for endpoint in &slice.endpoints {
        match desired.get(&Identity::of(endpoint)) {
            None => totals.removed += 1,
            Some(wanted) if !says_the_same(wanted, endpoint) => totals.updated += 1,
            Some(_) => {}
        }
    }
    totals.added = (desired.len() + totals.removed).saturating_sub(slice.endpoints.len());
    totals
}

/// Whether a slice mirrors earlier Endpoints of the same name.
fn is_of_another(slice: &EndpointSlice, endpoints: &Endpoints) -> bool {
    slice.metadata.owner_references.iter().any(|owner| {
        owner.kind == "Endpoints" && owner.name == endpoints.metadata.name && owner.uid != *endpoints.uid()
    })
}

/// Uses slices that would be deleted for those of the same family that would be made.
fn recycle(plan: &mut Plan<'_>) {
    for slice in std::mem::take(&mut plan.create) {
        match plan.delete.iter().position(|spare| spare.address_type == slice.address_type) {
            Some(at) => plan.update.push(under_name_of(plan.delete.remove(at), slice)),
            None => plan.create.push(slice),
        }
    }
}

fn under_name_of(slice: &EndpointSlice, mut wanted: EndpointSlice) -> EndpointSlice {
    let ObjectMeta { generate_name, labels, annotations, owner_references, .. } = wanted.metadata;
    wanted.metadata =
        ObjectMeta { generate_name, labels, annotations, owner_references, ..slice.metadata.clone() };
    wanted
}

/// The endpoints mirrored from a subset, ready ones first, and how many of its addresses are none.
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
        addresses: vec![ip],
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

fn new_slice(
    endpoints: &Endpoints,
    family: Family,
    ports: Vec<EndpointPort>,
    desired: Desired,
) -> EndpointSlice {
    let ObjectMeta { name, namespace, labels, annotations, .. } = &endpoints.metadata;
    let labels: Labels = labels.with(SERVICE_NAME, name).with(SLICE_MANAGED_BY, MANAGER);
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: generate_name(name),
            namespace: namespace.clone(),
            labels,
            annotations: annotations.without(TRIGGER_TIME).without(LAST_APPLIED),
            owner_references: Box::new([controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: family.as_str().into(),
        endpoints: desired.into_values().collect(),
        ports,
    }
}
