use flyball_runtime::ErrorKinds;
use serde_json::json;

use super::node;
use crate::ipam::plan::plan;
use crate::ipam::pool::{Allocation, InvalidPodCidr};

#[test]
fn reserved_blocks_are_assigned_and_problems_are_reported() {
    let reserved = Allocation::Reserved(vec!["10.0.1.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()]);
    let invalid = InvalidPodCidr::Unreadable { node: "n".into(), cidr: "x".into() };
    #[rustfmt::skip]
    let table = [
        // allocation                                           plan
        (Allocation::Assigned(None),                            ""),
        (Allocation::Assigned(Some(invalid)),                   "invalid: node n: invalid podCIDR \"x\""),
        (Allocation::Closed,                                    ""),
        (Allocation::Exhausted("10.0.0.0/16".parse().unwrap()), "event Normal CIDRNotAvailable: Node n status is now: CIDRNotAvailable\n\
                                                                 fail: no block of 10.0.0.0/16 is free"),
        (reserved,                                              "patch Node n: the node has no podCIDR, and 10.0.1.0/24 with fd00::/64 is free\n  \
                                                                 else event Normal CIDRAssignmentFailed: Node n status is now: CIDRAssignmentFailed"),
    ];
    for (allocation, want) in table {
        assert_eq!(plan(&node("n", ""), &allocation).to_string(), want, "{allocation:?}");
    }
}

#[test]
fn an_assignment_is_tried_three_times_unless_its_outcome_is_unknown() {
    let plan = plan(&node("n", ""), &Allocation::Reserved(vec!["10.0.1.0/24".parse().unwrap()]));
    let [write] = plan.writes()[..] else { panic!("{plan}") };
    assert_eq!(write.body(), Some(json!({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}})));
    assert_eq!(
        (write.attempts, write.ignore, write.no_event_for),
        (3, ErrorKinds::NOT_FOUND, ErrorKinds::OUTCOME_UNKNOWN)
    );
}
