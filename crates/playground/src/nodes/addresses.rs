//! Pod addresses: each node assigns addresses of its range, one per pod, for the lifetime of the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use flyball_api::node::Node;
use parking_lot::Mutex;
use smol_str::{SmolStr, ToSmolStr};

use crate::objects::Pod;

/// The range of nodes without a pod CIDR.
const FALLBACK: [u8; 2] = [10, 243];

#[derive(Debug, Default)]
pub(super) struct Addresses {
    inner: Mutex<Given>,
}

#[derive(Debug, Default)]
struct Given {
    by_pod: BTreeMap<SmolStr, Ipv4Addr>,
    taken: BTreeSet<Ipv4Addr>,
}

impl Addresses {
    /// The address of a pod on a node; an address in its status is kept.
    pub(super) fn of(&self, pod: &Pod, node: &Node) -> Option<SmolStr> {
        let uid = pod.metadata.uid.to_smolstr();
        let mut given = self.inner.lock();
        if let Some(address) = given.by_pod.get(&uid) {
            return Some(address.to_smolstr());
        }
        let shown: Option<Ipv4Addr> = pod.status.pod_ip.parse().ok();
        let address = match shown {
            Some(address) => address,
            None => free(&given.taken, node)?,
        };
        given.taken.insert(address);
        given.by_pod.insert(uid, address);
        Some(address.to_smolstr())
    }

    /// Releases a pod's address.
    pub(super) fn release(&self, pod: &Pod) {
        let mut given = self.inner.lock();
        if let Some(address) = given.by_pod.remove(&pod.metadata.uid.to_smolstr()) {
            given.taken.remove(&address);
        }
    }
}

/// The first free address of the node's range.
fn free(taken: &BTreeSet<Ipv4Addr>, node: &Node) -> Option<Ipv4Addr> {
    let range = node.spec.pod_cidr.split('/').next().and_then(|base| base.parse::<Ipv4Addr>().ok());
    let [a, b, c, _] = range.map_or_else(
        || {
            let [.., low] = flyball_api::hash::fnv32a(node.metadata.name.as_bytes()).to_be_bytes();
            [FALLBACK[0], FALLBACK[1], low, 0]
        },
        |base| base.octets(),
    );
    (2..=254).map(|last| Ipv4Addr::new(a, b, c, last)).find(|address| !taken.contains(address))
}
