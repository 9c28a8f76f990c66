//! Which time fits which size of a cluster. Pure.

use flyball_api::{Node, Object};
use flyball_client::Patch;
use flyball_runtime::{Plan, Refusals, Write};
use serde_json::json;

/// The annotation that kubelets read.
pub const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// A range of sizes, and the time that fits it.
struct Step {
    /// With fewer nodes than this the step before fits.
    from: usize,
    /// With more nodes than this the next step fits.
    to: usize,
    seconds: u32,
}

/// Neighbouring steps overlap, so that a cluster whose size goes back and forth stays with one.
const STEPS: [Step; 5] = [
    Step { from: 0, to: 100, seconds: 0 },
    Step { from: 90, to: 500, seconds: 15 },
    Step { from: 450, to: 1000, seconds: 30 },
    Step { from: 900, to: 2000, seconds: 60 },
    Step { from: 1800, to: usize::MAX, seconds: 300 },
];

/// How many nodes there are, and which step that has led to: within an overlap it depends on the way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSize {
    nodes: usize,
    step: usize,
}

impl ClusterSize {
    /// There is one more node.
    pub fn grow(&mut self) {
        self.nodes = self.nodes.saturating_add(1);
        if STEPS.get(self.step).is_some_and(|step| self.nodes > step.to) {
            self.step += 1;
        }
    }

    /// There is one node fewer.
    pub fn shrink(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if STEPS.get(self.step).is_some_and(|step| self.nodes < step.from) {
            self.step -= 1;
        }
    }

    pub fn seconds(&self) -> u32 {
        STEPS.get(self.step).map_or(0, |step| step.seconds)
    }
}

/// The patch that gives the annotation its value; nothing to do if it has it. A value that is no number is replaced,
/// however a number is written.
pub fn plan(node: &Node, size: ClusterSize) -> Plan {
    let held = node.metadata.annotations.get(ANNOTATION).and_then(|text| text.parse::<i64>().ok());
    let wanted = size.seconds();
    let patch = || json!({"metadata": {"annotations": {ANNOTATION: wanted.to_string()}}});
    let write = || {
        Write::patch::<Node>(node.key(), Patch::Strategic(patch()))
            .why(format_args!("{wanted} seconds fit the size of the cluster"))
            .accept(Refusals::GONE)
    };
    Plan::of((held != Some(i64::from(wanted))).then(write))
}
