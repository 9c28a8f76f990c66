//! Whether a range of Service addresses is ready, and whether it may go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{IPAddress, Object, ServiceCIDR, Timestamp, condition};

use super::ranges::{covers, provides, ranges};

/// Keeps a range until no address depends on it.
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Allocators everywhere must have heard that a range is going before it goes.
const GRACE: Duration = Duration::from_secs(10);
/// Who hands out the addresses of Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";

/// What is said about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// `True` or `False`.
    pub status: &'static str,
    pub reason: &'static str,
    pub message: &'static str,
}

/// The range can be used.
pub const READY: Verdict =
    Verdict { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };
/// The range is to go, but cannot.
pub const TERMINATING: Verdict = Verdict {
    status: "False",
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

/// Everything the decision may look at.
pub struct View<'a> {
    pub cidr: &'a ServiceCIDR,
    /// All of them, this one included.
    pub all: &'a [Arc<ServiceCIDR>],
    /// All addresses in use; only needed while the ServiceCIDR is being deleted.
    pub addresses: &'a [Arc<IPAddress>],
    pub now: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Protect,
    Release,
    Say(Verdict),
    /// Look again after this long.
    Wait(Duration),
}

/// What to do about a ServiceCIDR, in order.
pub fn plan(view: &View<'_>) -> Vec<Action> {
    let cidr = view.cidr;
    let is_protected = cidr.metadata.has_finalizer(FINALIZER);
    let Some(deleted) = cidr.metadata.deletion_timestamp else {
        let protect = (!is_protected).then_some(Action::Protect);
        return protect.into_iter().chain(say(cidr, READY)).collect();
    };
    if !is_dispensable(view) {
        return say(cidr, TERMINATING).into_iter().collect();
    }
    let age = Duration::try_from(view.now.duration_since(deleted)).unwrap_or_default();
    match GRACE.checked_sub(age).filter(|left| !left.is_zero()) {
        Some(left) => vec![Action::Wait(left)],
        None => is_protected.then_some(Action::Release).into_iter().collect(),
    }
}

/// The condition, unless it already says so.
fn say(cidr: &ServiceCIDR, verdict: Verdict) -> Option<Action> {
    let said = condition::find(&cidr.status.conditions, "Ready").is_some_and(|ready| {
        ready.status == verdict.status && ready.reason == verdict.reason && ready.message == verdict.message
    });
    (!said).then_some(Action::Say(verdict))
}

/// Whether every address would still belong to some range without this ServiceCIDR.
fn is_dispensable(view: &View<'_>) -> bool {
    let others = || view.all.iter().filter(|other| other.metadata.name != view.cidr.metadata.name);
    if ranges(view.cidr).all(|range| others().any(|other| covers(other, &range))) {
        return true;
    }
    let in_use = view.addresses.iter().filter_map(|address| allocated(address));
    let mut ours = in_use.filter(|address| provides(view.cidr, *address));
    ours.all(|address| others().any(|other| provides(other, address)))
}

/// The address, if it was handed out to a Service.
pub(super) fn allocated(address: &IPAddress) -> Option<IpAddr> {
    let is_service = address.meta().labels.get(MANAGED_BY) == Some(ALLOCATOR);
    is_service.then(|| address.metadata.name.parse().ok()).flatten()
}
