//! Labels, annotations and other words that users and other programs know.

/// Which Service a slice belongs to.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Marks what belongs to a Service without an address of its own.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// When the change happened that led to the last write.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The zone of a node.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Says that Endpoints hold only part of the addresses.
pub(crate) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Marks Endpoints that serve to elect a leader and no Service.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Keeps Endpoints from being mirrored.
pub(crate) const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// What `kubectl apply` remembers; never copied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
