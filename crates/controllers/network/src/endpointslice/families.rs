//! The changes to a Service's slices, family by family, without hints. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use flyball_api::endpoint_slice::{Addresses, Endpoint, EndpointConditions, EndpointPort};
use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Labels, Object, ObjectMeta, Service};
use flyball_common::adoption::controller_reference;
use smol_str::SmolStr;

use super::MANAGER;
use super::packing::{Changes, Desired, Template, pack};
use super::plan::View;
use crate::addresses::{self, Family};
use crate::names::{HEADLESS, SERVICE_NAME, SLICE_MANAGED_BY};
use crate::slices::{Identity, generate_name, sorted};
use crate::{members, ports};

#[derive(Debug, PartialEq)]
pub struct Families<'a> {
    /// For each family of the Service.
    pub changes: Vec<(Family, Changes<'a>)>,
    /// Slices of a family that the Service no longer has.
    pub outdated: Vec<&'a EndpointSlice>,
    pub left_out: Vec<LeftOut<'a>>,
}

/// A pod that is not published because its node does not exist, or is not in the cache yet.
#[derive(Debug, PartialEq)]
pub struct LeftOut<'a> {
    pub service: &'a ObjectMeta,
    pub pod: &'a Pod,
}

impl fmt::Display for LeftOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, pod } = self;
        let (name, node) = (&pod.metadata.name, &pod.spec.node_name);
        write!(f, "skipping Pod {name} for Service {}: Node {node} Not Found", service.key())
    }
}

/// The changes that make the slices publish the pods.
pub fn families<'a>(view: &View<'a>) -> Families<'a> {
    let families = addresses::families(view.service);
    let has_family =
        |slice: &&EndpointSlice| families.iter().any(|family| slice.address_type == family.as_str());
    let slices = view.slices.iter().map(Arc::as_ref).filter(|slice| !slice.metadata.is_deleting());
    let (slices, outdated): (Vec<_>, Vec<_>) = slices.partition(has_family);
    let (members, left_out) = members(view);
    let changes = families.into_iter().map(|family| {
        let existing = slices.iter().copied().filter(|slice| slice.address_type == family.as_str());
        (family, changes(view, &members, family, existing.collect()))
    });
    Families { changes: changes.collect(), outdated, left_out }
}

/// A pod with an address, and its ports.
struct Member<'a> {
    pod: &'a Pod,
    ports: Vec<EndpointPort>,
    is_left_out: bool,
}

fn members<'a>(view: &View<'a>) -> (Vec<Member<'a>>, Vec<LeftOut<'a>>) {
    let service = view.service;
    let pods = view.pods.iter().map(Arc::as_ref).filter(|pod| members::has_address(pod));
    let members: Vec<Member<'_>> = pods
        .map(|pod| {
            // A Service that publishes pods that are not ready also publishes those on unknown nodes.
            let is_left_out =
                !view.zones.contains_key(&pod.spec.node_name) && !service.spec.publish_not_ready_addresses;
            Member { pod, ports: endpoint_ports(service, pod), is_left_out }
        })
        .collect();
    let left_out = members.iter().filter(|member| member.is_left_out);
    let left_out = left_out.map(|member| LeftOut { service: &service.metadata, pod: member.pod }).collect();
    (members, left_out)
}

fn changes<'a>(
    view: &View<'a>,
    members: &[Member<'_>],
    family: Family,
    existing: Vec<&'a EndpointSlice>,
) -> Changes<'a> {
    let empty = empty_slice(view.service, family);
    let (own, foreign): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|slice| is_owned(slice, view.service));
    let mut groups: BTreeMap<Vec<EndpointPort>, (Option<Desired>, Vec<&EndpointSlice>)> = BTreeMap::new();
    for slice in own {
        groups.entry(sorted(slice.ports.clone())).or_default().1.push(slice);
    }
    for member in members {
        // The slices with the ports of a pod that is left out are not deleted.
        let desired = groups.entry(member.ports.clone()).or_default().0.get_or_insert_default();
        if !member.is_left_out
            && let Some(endpoint) = endpoint(view, member.pod, family)
        {
            desired.insert(Identity::of(&endpoint), endpoint);
        }
    }
    let mut changes = Changes { delete: foreign, ..Changes::default() };
    for (ports, (desired, slices)) in groups {
        let Some(desired) = desired else {
            changes.delete.extend(slices);
            continue;
        };
        let empty = EndpointSlice { ports, ..empty.clone() };
        changes.extend(pack(&slices, desired, &Template { empty: &empty, capacity: view.capacity.max(1) }));
    }
    ensure_one(&mut changes, empty);
    changes
}

/// A Service without endpoints has one empty slice, which shows clients that it has been synced.
fn ensure_one(changes: &mut Changes<'_>, empty: EndpointSlice) {
    let Changes { create, update, delete, unchanged, .. } = changes;
    if !create.is_empty() || !update.is_empty() || !unchanged.is_empty() {
        return;
    }
    // Upstream: endpointslice/reconciler.go, placeholderSliceCompare: ignores the owner. An empty slice of an earlier
    // Service stays until the garbage collector deletes it.
    let is_placeholder = |slice: &EndpointSlice| {
        slice.endpoints.is_empty() && slice.ports.is_empty() && slice.metadata.labels == empty.metadata.labels
    };
    match delete.as_slice() {
        [slice] if is_placeholder(slice) => unchanged.extend(delete.pop()),
        _ => create.push(empty),
    }
}

/// The endpoint of a pod in one family; `None` if the pod has no address of that family.
fn endpoint(view: &View<'_>, pod: &Pod, family: Family) -> Option<Endpoint> {
    let parsed = pod.status.pod_ips.iter().filter_map(|ip| addresses::parse(ip));
    let mut addresses: Addresses =
        parsed.filter(|(of, _)| *of == family).map(|(_, address)| address).collect();
    if addresses.is_empty() {
        return None;
    }
    addresses.sort_unstable();
    let (serving, terminating) = (pod.is_ready(), pod.metadata.is_deleting());
    let ready = view.service.spec.publish_not_ready_addresses || (serving && !terminating);
    let node = &pod.spec.node_name;
    Some(Endpoint {
        addresses,
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: members::hostname(pod, view.service).cloned(),
        target_ref: Some(members::reference(pod)),
        node_name: Some(node.clone()).filter(|node| !node.is_empty()),
        zone: view.zones.get(node).cloned().flatten(),
        ..Endpoint::default()
    })
}

/// The ports under which a pod is published: those of the Service that the pod has.
fn endpoint_ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.ports.iter().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone()),
            protocol: Some(port.protocol.clone()),
            port: Some(ports::target(pod, port)?),
            app_protocol: port.app_protocol.clone(),
        })
    });
    sorted(ports.collect())
}

pub(super) fn empty_slice(service: &Service, family: Family) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: generate_name(&service.metadata.name),
            namespace: service.metadata.namespace.clone(),
            labels: labels(service),
            owner_references: [controller_reference(service)].into(),
            ..ObjectMeta::default()
        },
        address_type: SmolStr::new_static(family.as_str()),
        ..EndpointSlice::default()
    }
}

/// The labels of the Service, with the reserved ones set for the slice.
fn labels(service: &Service) -> Labels {
    let own = service.metadata.labels.filtered(|key| !is_reserved(key));
    let named = own.with(SERVICE_NAME, &service.metadata.name).with(SLICE_MANAGED_BY, MANAGER);
    let has_address = !service.is_headless() && !service.spec.cluster_ip.is_empty();
    if has_address { named } else { named.with(HEADLESS, "") }
}

/// Labels that are not copied from the Service.
pub(super) fn is_reserved(label: &str) -> bool {
    matches!(label, SERVICE_NAME | SLICE_MANAGED_BY | HEADLESS)
}

/// Whether a slice belongs to this Service, and not to an earlier one of the same name.
pub(super) fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice
        .metadata
        .owner_references
        .iter()
        .any(|owner| owner.uid == *service.uid() && owner.kind == "Service" && owner.api_version == "v1")
}
