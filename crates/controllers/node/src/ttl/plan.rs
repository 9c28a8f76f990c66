//! The time to live for the size of the cluster. Pure.

use flyball_api::{Node, Object};
use flyball_client::Patch;
use flyball_runtime::{ErrorKinds, Plan, Write};
use serde_json::json;

/// The annotation that kubelets read.
pub const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// A range of cluster sizes and its time to live.
struct Tier {
    /// With fewer nodes the tier below applies.
    from: usize,
    /// With more nodes the tier above applies.
    to: usize,
    seconds: u32,
}

/// Neighbouring tiers overlap, so that a cluster whose size varies a little stays in one tier.
const TIERS: [Tier; 5] = [
    Tier { from: 0, to: 100, seconds: 0 },
    Tier { from: 90, to: 500, seconds: 15 },
    Tier { from: 450, to: 1000, seconds: 30 },
    Tier { from: 900, to: 2000, seconds: 60 },
    Tier { from: 1800, to: usize::MAX, seconds: 300 },
];

/// The tier of a cluster. Where tiers overlap, it depends on the sizes before.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSize {
    tier: usize,
}

impl ClusterSize {
    /// The cluster has this many nodes now.
    pub fn update(&mut self, nodes: usize) {
        while self.tier + 1 < TIERS.len() && nodes > TIERS[self.tier].to {
            self.tier += 1;
        }
        while nodes < TIERS[self.tier].from {
            self.tier -= 1;
        }
    }

    pub fn seconds(&self) -> u32 {
        TIERS[self.tier].seconds
    }
}

/// Sets the annotation, unless it has this number already, in whatever notation.
pub fn plan(node: &Node, size: ClusterSize) -> Plan {
    let present = node.metadata.annotations.get(ANNOTATION).and_then(|text| text.parse::<i64>().ok());
    let wanted = size.seconds();
    let patch = || json!({"metadata": {"annotations": {ANNOTATION: wanted.to_string()}}});
    let write = || {
        Write::patch::<Node>(node.key(), Patch::Strategic(patch()))
            .why(format_args!("the time to live is {wanted} s for this size of the cluster"))
            .ignore(ErrorKinds::NOT_FOUND)
    };
    Plan::of((present != Some(i64::from(wanted))).then(write))
}
