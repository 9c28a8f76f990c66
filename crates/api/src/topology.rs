//! Labels of nodes that say where they are.

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
/// Deprecated in favour of [`ZONE`].
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// Deprecated in favour of [`REGION`].
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
