//! Objects as the scheduler and the simulated nodes read them. Controllers cache less of a pod; the playground
//! also needs placement rules, commands and all annotations, so it has its own types.

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
