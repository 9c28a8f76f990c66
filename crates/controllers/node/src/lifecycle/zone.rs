//! Zones: which one a node belongs to, how disrupted a zone is, and how fast its nodes may be tainted. Pure.

use std::collections::BTreeMap;

use flyball_api::{Labels, Node, topology};
use smol_str::{SmolStr, format_smolstr};

/// Nodes with this label are not counted in their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// A zone with at most this many nodes that are not ready is never partially disrupted.
const FEW: usize = 2;

/// The name of a node's zone; empty for a node without labels of zone and region. Deprecated labels take precedence.
pub fn zone_of(node: &Node) -> SmolStr {
    let labels = &node.metadata.labels;
    let zone = first(labels, [topology::BETA_ZONE, topology::ZONE]);
    let region = first(labels, [topology::BETA_REGION, topology::REGION]);
    if zone.is_empty() && region.is_empty() {
        return SmolStr::default();
    }
    // No label can contain a NUL, so two different pairs cannot look alike.
    format_smolstr!("{region}:\0:{zone}")
}

fn first<'a>(labels: &'a Labels, keys: [&str; 2]) -> &'a str {
    keys.iter().find_map(|key| labels.get(key)).unwrap_or_default()
}

pub fn is_counted(node: &Node) -> bool {
    !node.metadata.labels.contains_key(EXCLUDED)
}

/// The nodes of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub ready: usize,
    /// Nodes that are not ready, or have never reported.
    pub unready: usize,
}

impl Tally {
    pub fn size(self) -> usize {
        self.ready + self.unready
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneState {
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// How fast nodes may be tainted; from flags.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Nodes per second in a zone that is healthy, or fully disrupted while others are not.
    pub rate: f32,
    /// Nodes per second in a large zone that is partially disrupted.
    pub reduced_rate: f32,
    /// A zone with more nodes than this is large.
    pub large: usize,
    /// The share of nodes not ready that makes a partial disruption.
    pub threshold: f32,
}

impl Policy {
    pub fn state(&self, tally: Tally) -> ZoneState {
        let share = tally.unready as f32 / tally.size().max(1) as f32;
        match tally {
            Tally { ready: 0, unready: 1.. } => ZoneState::FullDisruption,
            _ if tally.unready > FEW && share >= self.threshold => ZoneState::PartialDisruption,
            _ => ZoneState::Normal,
        }
    }

    fn rate(&self, tally: Tally) -> f32 {
        match self.state(tally) {
            ZoneState::Normal | ZoneState::FullDisruption => self.rate,
            ZoneState::PartialDisruption if tally.size() > self.large => self.reduced_rate,
            ZoneState::PartialDisruption => 0.0,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assessment {
    /// Whether all zones are fully disrupted. Then probably the control plane is cut off, and no pod is evicted.
    pub no_node_ready: bool,
    /// How many nodes per second may be tainted, by zone.
    pub rates: BTreeMap<SmolStr, f32>,
}

/// Assesses all zones. One without counted nodes does not influence the others, but has a rate.
pub fn assess(tallies: &BTreeMap<SmolStr, Tally>, policy: &Policy) -> Assessment {
    let is_down = |tally: &Tally| policy.state(*tally) == ZoneState::FullDisruption;
    let mut counted = tallies.values().filter(|tally| tally.size() > 0).peekable();
    let no_node_ready = counted.peek().is_some() && counted.all(is_down);
    let rate = |tally: &Tally| if no_node_ready { 0.0 } else { policy.rate(*tally) };
    let rates = tallies.iter().map(|(zone, tally)| (zone.clone(), rate(tally))).collect();
    Assessment { no_node_ready, rates }
}
