//! Objects as the scheduler and the simulated nodes read them. Controllers cache less of a pod; here its placement
//! rules, its commands and its own annotations matter, so these are types of their own.

mod placement;
mod pod;
mod status;

pub use placement::{
    Affinity, NodeAffinity, PodAffinity, PodTerm, PreferredNodeTerm, SpreadConstraint, WeightedPodTerm,
};
pub use pod::{
    ClaimSource, Container, ContainerPort, EphemeralSource, Named, Pod, PodSpec, Probe, ReadinessGate, Volume,
};
pub use status::{
    Condition, ContainerState, ContainerStatus, HostIp, PodStatus, Running, Terminated, Waiting,
};
