//! Objects as the scheduler and the simulated nodes read them. Controllers cache less of a pod; here its placement
//! rules, its commands and its own annotations matter, so these are types of their own.

mod placement;
mod pod;
mod status;

pub use placement::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodTerm, PreferredNodeTerm,
    Requirement, SpreadConstraint, WeightedPodTerm,
};
pub use pod::{
    ClaimSource, Container, ContainerPort, EphemeralSource, Named, Pod, PodSpec, Probe, ReadinessGate, Volume,
};
pub use status::{
    Condition, ContainerState, ContainerStatus, HostIp, PodStatus, Running, Terminated, Waiting,
};

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default, as Go does.
pub(crate) fn null_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}
