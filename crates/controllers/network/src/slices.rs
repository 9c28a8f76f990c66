//! What the two controllers that write EndpointSlices share: lookup, triggers, writes and the comparison of endpoints.

use std::sync::Arc;

use flyball_api::endpoint_slice::{Addresses, Endpoint, EndpointPort};
use flyball_api::object_reference::SharedReference;
use flyball_api::{EndpointSlice, Key};
use flyball_cache::{Change, Index, Store};
use flyball_client::Verb;
use flyball_runtime::plan::Body;
use flyball_runtime::{ErrorKinds, Write};
use smol_str::{SmolStr, format_smolstr};

use crate::names::{SERVICE_NAME, SLICE_MANAGED_BY};
use crate::own_writes::OwnWrites;

/// The longest name an object may have.
const MAX_NAME: usize = 253;

/// Slices by the Service in their label.
pub(crate) const BY_SERVICE: Index<EndpointSlice> = Index::new("service", |slice, emit| {
    if let Some(service) = service_of(slice) {
        emit(&path(&service));
    }
});

fn path(service: &Key) -> SmolStr {
    format_smolstr!("{}/{}", service.namespace, service.name)
}

/// The Service in the label of a slice.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key::new(slice.metadata.namespace.as_str(), name))
}

pub(crate) fn is_managed_by(slice: &EndpointSlice, manager: &str) -> bool {
    slice.metadata.labels.get(SLICE_MANAGED_BY) == Some(manager)
}

/// The slices of a Service that `manager` manages, sorted by name.
pub(crate) fn slices_of(
    slices: &Store<EndpointSlice>,
    service: &Key,
    manager: &str,
) -> Vec<Arc<EndpointSlice>> {
    let mut found = slices.by(&BY_SERVICE, &path(service));
    found.retain(|slice| is_managed_by(slice, manager));
    found.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    found
}

/// The Services to sync after another client has changed a slice.
pub(crate) fn slice_changed(
    change: &Change<'_, EndpointSlice>,
    manager: &str,
    own_writes: &OwnWrites,
) -> Vec<Key> {
    let managed = |slice: &Arc<EndpointSlice>| is_managed_by(slice, manager);
    match (change.old, change.new) {
        (Some(old), Some(new)) if service_of(old) != service_of(new) => {
            service_of(old).into_iter().chain(service_of(new)).collect()
        }
        (Some(old), Some(new)) if managed(old) != managed(new) => service_of(new).into_iter().collect(),
        (_, Some(new)) if managed(new) && !own_writes.contains(new) => service_of(new).into_iter().collect(),
        (Some(old), None) if managed(old) && !own_writes.take_deleted(old) => {
            service_of(old).into_iter().collect()
        }
        _ => vec![],
    }
}

/// What identifies an endpoint: everything else about it is updated in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    namespace: SmolStr,
    name: SmolStr,
    hostname: SmolStr,
    addresses: Addresses,
}

impl Identity {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort_unstable();
        let target = endpoint.target_ref.as_ref();
        Self {
            namespace: target.map(|target| target.namespace.clone()).unwrap_or_default(),
            name: target.map(|target| target.name.clone()).unwrap_or_default(),
            hostname: endpoint.hostname.clone().unwrap_or_default(),
            addresses,
        }
    }
}

/// Whether endpoints of equal identity are equal, apart from hints and the resourceVersion of the pod, which old releases
/// wrote.
pub(crate) fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    let target = |endpoint: &Endpoint| endpoint.target_ref.as_ref().map(SharedReference::unversioned);
    one.node_name == other.node_name
        && one.zone == other.zone
        && one.conditions == other.conditions
        && target(one) == target(other)
}

/// Sorted, so that equal sets of ports are equal.
pub(crate) fn sorted(mut ports: Vec<EndpointPort>) -> Vec<EndpointPort> {
    ports.sort();
    ports
}

/// The prefix of a new slice's name.
pub(crate) fn generate_name(owner: &str) -> SmolStr {
    if owner.len() < MAX_NAME { format_smolstr!("{owner}-") } else { owner.into() }
}

/// What a write does, to find it again in the outcome of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceWrite {
    pub verb: Verb,
    pub key: Key,
    pub address_type: SmolStr,
}

/// Creates a slice, unless its namespace is being deleted.
pub(crate) fn create(slice: &EndpointSlice) -> Write<SliceWrite> {
    let name = format_smolstr!("{}*", slice.metadata.generate_name);
    let key = Key::new(slice.metadata.namespace.as_str(), name.as_str());
    let write = Write::create::<EndpointSlice>(key, Body::exact(slice));
    tagged(write.ignore(ErrorKinds::NAMESPACE_TERMINATING), slice)
}

pub(crate) fn update(slice: &EndpointSlice) -> Write<SliceWrite> {
    tagged(Write::replace(slice), slice)
}

/// Deletes a slice. If another slice has taken its name, the sync is repeated.
pub(crate) fn delete(slice: &EndpointSlice) -> Write<SliceWrite> {
    tagged(Write::delete(slice).ignore_only(ErrorKinds::NOT_FOUND), slice)
}

fn tagged(write: Write, slice: &EndpointSlice) -> Write<SliceWrite> {
    let (verb, key) = (write.verb(), write.key.clone());
    write.tag(SliceWrite { verb, key, address_type: slice.address_type.clone() })
}
