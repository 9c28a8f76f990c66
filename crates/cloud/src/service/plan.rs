//! What a Service needs done in the cloud, by what it says and what was done for it. Pure.

use std::sync::Arc;

use flyball_api::Service;
use serde_json::{Value, json};

use super::backends::Backends;

/// Keeps a Service until its load balancer is gone.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// What this process has done for a Service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Done {
    /// The Service that its load balancer was made for; none before that, and after anything failed.
    pub ensured: Option<Arc<Service>>,
    /// The nodes that the load balancer points to.
    pub backends: Backends,
}

/// Everything the decision may look at.
#[derive(Debug)]
pub struct View<'a> {
    pub service: &'a Service,
    /// What was done for it, if anything.
    pub done: Option<&'a Done>,
    /// The nodes that its load balancer should point to.
    pub backends: &'a Backends,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Leave,
    /// The load balancer is made, or made to fit.
    Ensure,
    /// The load balancer is pointed to other nodes.
    Redirect,
    /// The load balancer is taken away, and then the finalizer.
    CleanUp,
}

pub fn plan(view: &View<'_>) -> Action {
    let View { service, done, backends } = view;
    if !wants_balancer(service) || needs_cleanup(service) {
        return Action::CleanUp;
    }
    if service.metadata.is_deleting() {
        // It is going, and there is no finalizer of ours: it has no load balancer, and gets none any more.
        return Action::Leave;
    }
    let Some(Done { ensured: Some(ensured), backends: has }) = done else { return Action::Ensure };
    if differ(ensured, service) {
        return Action::Ensure;
    }
    if has == *backends { Action::Leave } else { Action::Redirect }
}

/// Whether a Service wants a load balancer of the cloud's own kind.
pub fn wants_balancer(service: &Service) -> bool {
    service.spec.type_ == "LoadBalancer" && service.spec.load_balancer_class.is_none()
}

/// Whether a Service may still have a load balancer that it does not want any more.
pub fn needs_cleanup(service: &Service) -> bool {
    service.metadata.has_finalizer(FINALIZER)
        && (service.metadata.is_deleting() || service.spec.type_ != "LoadBalancer")
}

/// Whether a load balancer that fits one of two Services may not fit the other.
pub fn differ(old: &Service, new: &Service) -> bool {
    if !wants_balancer(old) && !wants_balancer(new) {
        return false;
    }
    let (a, b) = (&*old.spec, &*new.spec);
    wants_balancer(old) != wants_balancer(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.annotations != new.metadata.annotations
        || a.ports != b.ports
        || a.session_affinity != b.session_affinity
        || a.session_affinity_config != b.session_affinity_config
        || a.load_balancer_ip != b.load_balancer_ip
        || a.load_balancer_source_ranges != b.load_balancer_source_ranges
        || a.external_ips != b.external_ips
        || a.external_traffic_policy != b.external_traffic_policy
        || a.health_check_node_port != b.health_check_node_port
        // The first family never changes.
        || a.ip_families.len() != b.ip_families.len()
}

/// The patch of a Service's status that adds the finalizer; none if it has it.
pub fn with_finalizer(service: &Service) -> Option<Value> {
    let patch = || json!({"metadata": {"uid": service.metadata.uid, "finalizers": [FINALIZER]}});
    (!service.metadata.has_finalizer(FINALIZER)).then(patch)
}

/// The patch that takes the finalizer away; none if it has none.
pub fn without_finalizer(service: &Service) -> Option<Value> {
    let patch = || json!({"metadata": {"uid": service.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    service.metadata.has_finalizer(FINALIZER).then(patch)
}
