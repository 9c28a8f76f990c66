//! What is done about one node, by what it has or can get. Pure.

use flyball_api::{Node, Object};
use flyball_client::Patch;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, Write};
use ipnet::IpNet;
use serde_json::json;

use super::pool::Allocation;

/// How often a patch that is refused is sent, at once.
const ATTEMPTS: usize = 3;

/// Writes the blocks that are reserved for a node.
pub fn plan(node: &Node, allocation: &Allocation) -> Plan {
    match allocation {
        Allocation::Assigned(invalid) => {
            Plan::of(invalid.as_ref().map(|why| Effect::Invalid(why.to_string())))
        }
        Allocation::Closed => Plan::default(),
        // The node is requeued when a block becomes free. As upstream, the event repeats from time to time until then.
        Allocation::Exhausted(cluster) => Plan::of([
            Effect::from(event(node, "CIDRNotAvailable")),
            Effect::Fail(format!("no block of {cluster} is free")),
        ]),
        Allocation::Reserved(networks) => Plan::of([assignment(node, networks)]),
    }
}

fn assignment(node: &Node, networks: &[IpNet]) -> Write {
    let cidrs: Vec<String> = networks.iter().map(IpNet::to_string).collect();
    let patch = json!({"spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs}});
    Write::patch::<Node>(node.key(), Patch::Strategic(patch))
        .why(format_args!("the node has no podCIDR, and {} is free", cidrs.join(" with ")))
        .attempts(ATTEMPTS)
        .ignore(ErrorKinds::NOT_FOUND)
        // Whether it was assigned is found in the next sync.
        .no_event_for(ErrorKinds::OUTCOME_UNKNOWN)
        .on_failure(event(node, "CIDRAssignmentFailed"))
}

fn event(node: &Node, reason: &'static str) -> Event {
    Event::normal(reason, format!("Node {} status is now: {reason}", node.metadata.name))
}
