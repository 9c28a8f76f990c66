//! Whether a ServiceCIDR is ready, and whether it may be deleted. Pure.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{IPAddress, Object, Resource, ServiceCIDR, Timestamp, condition, time};
use flyball_client::Patch;
use flyball_runtime::{ErrorKinds, Event, Plan, Waiting, Write};
use serde_json::{Value, json};

use super::NAME;
use super::ranges::{covers, provides, ranges};

/// Prevents the deletion of a ServiceCIDR while addresses depend on it.
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The time in which all API servers stop allocating from a ServiceCIDR that is being deleted.
const GRACE: Duration = Duration::from_secs(10);
/// The manager of the IPAddresses that belong to Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// The contents of the condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ready {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

const READY: Ready = Ready { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };
const TERMINATING: Ready = Ready {
    status: "False",
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
};

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a> {
    pub cidr: &'a ServiceCIDR,
    /// All ServiceCIDRs, including this one.
    pub all: &'a [Arc<ServiceCIDR>],
    /// All IPAddresses; only needed while the ServiceCIDR is being deleted.
    pub addresses: &'a [Arc<IPAddress>],
    pub now: Timestamp,
}

/// Adds the finalizer and reports the ServiceCIDR as ready; for one that is being deleted, removes the finalizer or
/// reports why it stays.
pub fn plan(view: &View<'_>) -> Plan {
    let cidr = view.cidr;
    let has_finalizer = cidr.metadata.has_finalizer(FINALIZER);
    let Some(deleted) = cidr.metadata.deletion_timestamp else {
        let add = (!has_finalizer)
            .then(|| change_finalizers(cidr, "finalizers").why("Services may get addresses from it"));
        return Plan::of(add.into_iter().chain(condition(view, READY).map(|write| {
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            write.on_failure(Event::warning("KubernetesServiceCIDRError", message))
        })));
    };
    if let Some(address) = dependent(view) {
        let until = "to be deleted, or to be in another ServiceCIDR";
        return Plan::of(condition(view, TERMINATING))
            .waiting_for([Waiting::on::<IPAddress>(&address.key(), until)]);
    }
    let due = deleted.checked_add(GRACE).unwrap_or(Timestamp::MAX);
    match Duration::try_from(due.duration_since(view.now)) {
        Ok(left) if !left.is_zero() => {
            Plan::after(left.min(GRACE)).waiting_for([Waiting::until(due, "when the finalizer is removed")])
        }
        _ => Plan::of(has_finalizer.then(|| {
            change_finalizers(cidr, "$deleteFromPrimitiveList/finalizers").why("no address depends on it")
        })),
    }
}

fn change_finalizers(cidr: &ServiceCIDR, directive: &str) -> Write {
    let patch = Patch::Strategic(json!({"metadata": {directive: [FINALIZER]}}));
    Write::patch::<ServiceCIDR>(cidr.key(), patch).ignore(ErrorKinds::NOT_FOUND)
}

/// Applies the condition, unless the ServiceCIDR has it.
fn condition(view: &View<'_>, Ready { status, reason, message }: Ready) -> Option<Write> {
    let current = condition::find(&view.cidr.status.conditions, "Ready");
    if current
        .is_some_and(|ready| ready.status == status && ready.reason == reason && ready.message == message)
    {
        return None;
    }
    let object: Value = json!({
        "apiVersion": ServiceCIDR::TYPE.api_version(),
        "kind": ServiceCIDR::TYPE.kind,
        "metadata": {"name": view.cidr.metadata.name},
        "status": {"conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time::format_seconds(view.now),
        }]},
    });
    let patch = Patch::Apply { manager: NAME.into(), force: true, object };
    Some(Write::patch::<ServiceCIDR>(view.cidr.key(), patch).subresource("status").why(message))
}

/// An address that would be in no ServiceCIDR without this one.
fn dependent<'a>(view: &View<'a>) -> Option<&'a IPAddress> {
    let others = || view.all.iter().filter(|other| other.metadata.name != view.cidr.metadata.name);
    if ranges(view.cidr).all(|range| others().any(|other| covers(other, &range))) {
        return None;
    }
    view.addresses.iter().map(Arc::as_ref).find(|address| {
        allocated(address).is_some_and(|address| {
            provides(view.cidr, address) && !others().any(|other| provides(other, address))
        })
    })
}

/// The address, if it is allocated to a Service.
pub(super) fn allocated(address: &IPAddress) -> Option<IpAddr> {
    let labels = &address.meta().labels;
    let ip: IpAddr = address.metadata.name.parse().ok()?;
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    // Upstream selects addresses by both labels; the server's allocator sets both.
    (labels.get(MANAGED_BY) == Some(ALLOCATOR) && labels.get(FAMILY) == Some(family)).then_some(ip)
}
