//! Which ServiceCIDRs a change concerns. Pure.

use flyball_api::{IPAddress, Key, Object, ServiceCIDR};
use flyball_cache::{Change, Store};

use super::plan;
use super::ranges::{overlap, provides};

/// The ServiceCIDR itself. A new one may also allow the deletion of those that it overlaps.
pub fn cidr_changed(change: &Change<'_, ServiceCIDR>, cidrs: &Store<ServiceCIDR>) -> Vec<Key> {
    let mut keys = vec![change.key()];
    if let (None, Some(new)) = (change.old, change.new) {
        let others = cidrs.list();
        keys.extend(others.iter().filter(|other| overlap(new, other)).map(|other| other.key()));
    }
    keys
}

/// The ServiceCIDRs that contain an address that was allocated or released.
pub fn address_changed(change: &Change<'_, IPAddress>, cidrs: &Store<ServiceCIDR>) -> Vec<Key> {
    let ((None, Some(address)) | (Some(address), None)) = (change.old, change.new) else { return vec![] };
    let Some(address) = plan::allocated(address) else { return vec![] };
    cidrs.list().iter().filter(|cidr| provides(cidr, address)).map(|cidr| cidr.key()).collect()
}
