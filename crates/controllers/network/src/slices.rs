//! What the two keepers of EndpointSlices share: how slices are found, how endpoints are told apart, and who must
//! look when a slice changes.

use std::sync::Arc;

use flyball_api::endpoint_slice::{Endpoint, EndpointPort};
use flyball_api::object_reference::SharedReference;
use flyball_api::{EndpointSlice, Key};
use flyball_cache::{Change, Index, Store};
use smol_str::{SmolStr, format_smolstr};

use crate::ledger::Ledger;
use crate::names::{SERVICE_NAME, SLICE_MANAGED_BY};

/// The longest name an object may have.
const MAX_NAME: usize = 253;

/// Slices by the Service they name.
pub(crate) const BY_SERVICE: Index<EndpointSlice> = Index::new("service", |slice, emit| {
    if let Some(service) = service_of(slice) {
        emit(&path(&service));
    }
});

fn path(service: &Key) -> SmolStr {
    format_smolstr!("{}/{}", service.namespace, service.name)
}

/// The Service that a slice names.
pub(crate) fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())?;
    Some(Key::new(slice.metadata.namespace.as_str(), name))
}

/// Whether `manager` keeps a slice.
pub(crate) fn is_managed_by(slice: &EndpointSlice, manager: &str) -> bool {
    slice.metadata.labels.get(SLICE_MANAGED_BY) == Some(manager)
}

/// The slices of a Service that `manager` keeps, by name.
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

/// The Services to look at after somebody else than us changed a slice.
pub(crate) fn concerned(change: &Change<'_, EndpointSlice>, manager: &str, ledger: &Ledger) -> Vec<Key> {
    let managed = |slice: &Arc<EndpointSlice>| is_managed_by(slice, manager);
    match (change.old, change.new) {
        (Some(old), Some(new)) if service_of(old) != service_of(new) => {
            service_of(old).into_iter().chain(service_of(new)).collect()
        }
        (Some(old), Some(new)) if managed(old) != managed(new) => service_of(new).into_iter().collect(),
        (_, Some(new)) if managed(new) && !ledger.is_own(new) => service_of(new).into_iter().collect(),
        (Some(old), None) if managed(old) && !ledger.was_deleted(old) => {
            service_of(old).into_iter().collect()
        }
        _ => vec![],
    }
}

/// What makes an endpoint the same one: everything else about it is changed in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    namespace: SmolStr,
    name: SmolStr,
    hostname: SmolStr,
    addresses: Vec<SmolStr>,
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

/// Whether an endpoint that is the same one also says the same. Hints are another matter, and the version of the
/// pod that old releases noted means nothing.
pub(crate) fn says_the_same(one: &Endpoint, other: &Endpoint) -> bool {
    let target = |endpoint: &Endpoint| endpoint.target_ref.as_ref().map(SharedReference::unversioned);
    one.node_name == other.node_name
        && one.zone == other.zone
        && one.conditions == other.conditions
        && target(one) == target(other)
}

/// Ports in an order of their own, so that equal sets of ports are equal.
pub(crate) fn sorted(mut ports: Vec<EndpointPort>) -> Vec<EndpointPort> {
    ports.sort();
    ports
}

/// From what the server makes the name of a new slice.
pub(crate) fn generate_name(owner: &str) -> SmolStr {
    if owner.len() < MAX_NAME { format_smolstr!("{owner}-") } else { owner.into() }
}
