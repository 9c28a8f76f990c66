//! Labels and annotations, as upstream names them.

/// The Service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// On Endpoints and slices of a headless Service.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// When the change happened that led to the last write.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// On Endpoints that hold only some of the addresses.
pub(crate) const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// On Endpoints that serve leader election instead of a Service.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// On Endpoints that must not be mirrored.
pub(crate) const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Written by `kubectl apply`; never copied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
