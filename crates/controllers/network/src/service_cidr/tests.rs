//! Tables and a property for the deletion of ServiceCIDRs.

use std::sync::Arc;

use flyball_api::{IPAddress, ServiceCIDR, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::invariants::{check, removes_finalizer};
use super::plan::{FINALIZER, View, plan};

/// Ranges around, in, beside and across the range under test.
const RANGES: &[&str] =
    &["10.0.0.0/24", "10.0.0.0/26", "10.0.0.32/27 fd00::/64", "10.0.0.64/26", "10.0.0.16/28", "fd00::/112"];

fn cidr(name: &str, ranges: &str) -> ServiceCIDR {
    let ranges: Vec<_> = ranges.split_whitespace().collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"cidrs": ranges}})).unwrap()
}

fn address(name: &str) -> Arc<IPAddress> {
    let family = if name.contains(':') { "IPv6" } else { "IPv4" };
    labelled(
        name,
        json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": family}),
    )
}

fn labelled(name: &str, labels: serde_json::Value) -> Arc<IPAddress> {
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn planned(cidr: &ServiceCIDR, others: &[ServiceCIDR], addresses: &str, now: i64) -> String {
    let all: Vec<_> = others.iter().chain([cidr]).cloned().map(Arc::new).collect();
    let addresses: Vec<_> = addresses.split_whitespace().map(address).collect();
    let view = View { cidr, all: &all, addresses: &addresses, now: time(now) };
    let plan = plan(&view);
    assert_eq!(check(&view, &plan), Ok(()));
    plan.to_string()
}

const WAIT: &str = "again after 9s\nwaiting for 1970-01-01T00:01:50Z, when the finalizer is removed";

fn stays(address: &str) -> String {
    format!(
        "patch ServiceCIDR/status old: There are still IPAddresses referencing the ServiceCIDR, please remove them or \
         create a new ServiceCIDR\nwaiting for IPAddress/{address} to be deleted, or to be in another ServiceCIDR"
    )
}

#[test]
fn a_service_cidr_is_deleted_when_no_address_depends_on_it() {
    #[rustfmt::skip]
    let table = [
        // case                                        others          addresses              plan
        ("no address is allocated",                    "",             "",                    WAIT.to_owned()),
        ("an address is allocated",                    "",             "10.0.0.5",            stays("10.0.0.5")),
        ("an address of another range is allocated",   "",             "10.9.0.5",            WAIT.to_owned()),
        ("the address is in another ServiceCIDR, too", "10.0.0.0/28",  "10.0.0.5",            WAIT.to_owned()),
        ("only one of two addresses is",               "10.0.0.0/28",  "10.0.0.5 10.0.0.50",  stays("10.0.0.50")),
        ("another ServiceCIDR contains all of it",     "10.0.0.0/16",  "10.0.0.5",            WAIT.to_owned()),
        ("the last address of a range is not usable",  "10.0.0.0/28",  "10.0.0.15",           stays("10.0.0.15")),
    ];
    for (case, others, addresses, want) in table {
        let mut old = cidr("old", "10.0.0.0/24");
        old.metadata.deletion_timestamp = Some(time(100));
        assert_eq!(planned(&old, &[cidr("other", others)], addresses, 101), want, "{case}");
    }
}

#[test]
fn the_finalizer_is_removed_after_the_grace_period() {
    let mut old = cidr("old", "10.0.0.0/24");
    old.metadata.deletion_timestamp = Some(time(100));
    old.metadata.finalizers = Box::new([FINALIZER.into()]);
    assert_eq!(planned(&old, &[], "", 101), WAIT);
    assert_eq!(planned(&old, &[], "", 110), "patch ServiceCIDR old: no address depends on it");
    old.metadata.finalizers = Box::new([]);
    assert_eq!(planned(&old, &[], "", 110), "");
}

#[test]
fn a_new_service_cidr_gets_a_finalizer_and_becomes_ready() {
    let want = "\
patch ServiceCIDR new: Services may get addresses from it
patch ServiceCIDR/status new: Kubernetes Service CIDR is ready
  else event Warning KubernetesServiceCIDRError: The ServiceCIDR Status can not be set to Ready=True";
    assert_eq!(planned(&cidr("new", "10.0.0.0/24 fd00::/112"), &[], "", 0), want);
}

#[test]
fn the_condition_is_applied_with_the_time_and_the_finalizer_patched_as_a_list_element() {
    let new = cidr("new", "10.0.0.0/24");
    let plan = plan(&View { cidr: &new, all: &[], addresses: &[], now: time(0) });
    let bodies: Vec<_> = plan.writes().iter().filter_map(|write| write.body()).collect();
    assert_eq!(bodies[0], json!({"metadata": {"finalizers": [FINALIZER]}}));
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    });
    assert_eq!(bodies[1]["metadata"], json!({"name": "new"}));
    assert_eq!(bodies[1]["status"], json!({"conditions": [condition]}));
}

proptest! {
    /// No address loses its last ServiceCIDR, and the plan is empty once the finalizer is removed.
    #[test]
    fn every_plan_keeps_the_invariants(
        is_deleting: bool,
        has_finalizer: bool,
        others in prop::collection::vec(prop::sample::select(RANGES), 0..3),
        addresses in prop::collection::vec(0_u8..=255, 0..5),
        age in 0_i64..20,
    ) {
        let mut tested = cidr("tested", "10.0.0.0/26 fd00::/120");
        tested.metadata.deletion_timestamp = is_deleting.then(|| time(100));
        tested.metadata.finalizers = has_finalizer.then(|| FINALIZER.into()).into_iter().collect();
        let others = others.iter().enumerate().map(|(at, ranges)| cidr(&format!("other-{at}"), ranges));
        let all: Vec<_> = std::iter::once(tested.clone()).chain(others).map(Arc::new).collect();
        let addresses: Vec<_> = addresses.iter().map(|last| address(&format!("10.0.0.{last}"))).collect();
        let view = View { cidr: &tested, all: &all, addresses: &addresses, now: time(100 + age) };
        let planned = plan(&view);
        prop_assert_eq!(check(&view, &planned), Ok(()));
        if planned.writes().iter().filter_map(|write| write.body()).any(|patch| removes_finalizer(&patch)) {
            let mut released = tested.clone();
            released.metadata.finalizers = Box::new([]);
            prop_assert_eq!(plan(&View { cidr: &released, ..view }).to_string(), "");
        }
    }
}

#[test]
fn only_addresses_with_both_labels_of_the_allocator_are_of_services() {
    let (manager, family) = ("ipaddress.kubernetes.io/managed-by", "ipaddress.kubernetes.io/ip-family");
    #[rustfmt::skip]
    let table = [
        (json!({manager: "ipallocator.k8s.io", family: "IPv4"}), true),
        (json!({manager: "ipallocator.k8s.io", family: "IPv6"}), false),
        (json!({manager: "ipallocator.k8s.io"}),                 false),
        (json!({family: "IPv4"}),                                false),
        (json!({manager: "me", family: "IPv4"}),                 false),
    ];
    for (labels, want) in table {
        let address = labelled("10.0.0.1", labels.clone());
        assert_eq!(super::plan::allocated(&address).is_some(), want, "{labels}");
    }
}
