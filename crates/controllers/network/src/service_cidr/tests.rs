//! Tables for when a range may go.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{IPAddress, ServiceCIDR, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::invariants::broken;
use super::plan::{Action, FINALIZER, READY, TERMINATING, View, plan};

/// Ranges that lie around, in, beside and across the judged one.
const RANGES: &[&str] =
    &["10.0.0.0/24", "10.0.0.0/26", "10.0.0.32/27 fd00::/64", "10.0.0.64/26", "10.0.0.16/28", "fd00::/112"];

fn cidr(name: &str, ranges: &str) -> ServiceCIDR {
    let ranges: Vec<_> = ranges.split_whitespace().collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"cidrs": ranges}})).unwrap()
}

fn address(name: &str) -> Arc<IPAddress> {
    let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_range_goes_when_no_address_depends_on_it() {
    let wait = Action::Wait(Duration::from_secs(9));
    #[rustfmt::skip]
    let table = [
        // case                               others            addresses                 plan
        ("nothing in use",                    "",               "",                       wait),
        ("an address in use",                 "",               "10.0.0.5",               Action::Say(TERMINATING)),
        ("an address elsewhere",              "",               "10.9.0.5",               wait),
        ("another range has it, too",         "10.0.0.0/28",    "10.0.0.5",               wait),
        ("another range has only one",        "10.0.0.0/28",    "10.0.0.5 10.0.0.50",     Action::Say(TERMINATING)),
        ("all of it lies in another range",   "10.0.0.0/16",    "10.0.0.5",               wait),
        ("the last of a range is nobody's",   "10.0.0.0/28",    "10.0.0.15",              Action::Say(TERMINATING)),
    ];
    for (case, others, addresses, want) in table {
        let mut doomed = cidr("doomed", "10.0.0.0/24");
        doomed.metadata.deletion_timestamp = Some(time(100));
        let all: Vec<_> = [doomed.clone(), cidr("other", others)].into_iter().map(Arc::new).collect();
        let addresses: Vec<_> = addresses.split_whitespace().map(address).collect();
        let view = View { cidr: &doomed, all: &all, addresses: &addresses, now: time(101) };
        assert_eq!(plan(&view), [want], "{case}");
    }
}

#[test]
fn the_finalizer_goes_after_the_grace_period() {
    let mut doomed = cidr("doomed", "10.0.0.0/24");
    doomed.metadata.deletion_timestamp = Some(time(100));
    doomed.metadata.finalizers = Box::new([FINALIZER.into()]);
    let view = View { cidr: &doomed, all: &[], addresses: &[], now: time(110) };
    assert_eq!(plan(&view), [Action::Release]);
}

#[test]
fn a_new_range_is_protected_and_ready() {
    let new = cidr("new", "10.0.0.0/24 fd00::/112");
    let view = View { cidr: &new, all: &[], addresses: &[], now: time(0) };
    assert_eq!(plan(&view), [Action::Protect, Action::Say(READY)]);
}

proptest! {
    /// Whatever ranges and addresses there are, no address loses its last range, and a range that is let go stays
    /// let go.
    #[test]
    fn every_plan_keeps_the_invariants(
        going: bool,
        protected: bool,
        others in prop::collection::vec(prop::sample::select(RANGES), 0..3),
        addresses in prop::collection::vec(0_u8..=255, 0..5),
        age in 0_i64..20,
    ) {
        let mut judged = cidr("judged", "10.0.0.0/26 fd00::/120");
        judged.metadata.deletion_timestamp = going.then(|| time(100));
        judged.metadata.finalizers = protected.then(|| FINALIZER.into()).into_iter().collect();
        let others = others.iter().enumerate().map(|(at, ranges)| cidr(&format!("other-{at}"), ranges));
        let all: Vec<_> = std::iter::once(judged.clone()).chain(others).map(Arc::new).collect();
        let addresses: Vec<_> = addresses.iter().map(|last| address(&format!("10.0.0.{last}"))).collect();
        let view = View { cidr: &judged, all: &all, addresses: &addresses, now: time(100 + age) };
        let actions = plan(&view);
        prop_assert_eq!(broken(&view, &actions), Vec::<String>::new());
        if actions.contains(&Action::Release) {
            let mut released = judged.clone();
            released.metadata.finalizers = Box::new([]);
            prop_assert_eq!(plan(&View { cidr: &released, ..view }), vec![]);
        }
    }
}
