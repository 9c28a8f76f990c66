//! The calls to the cloud and the writes to the API server that a Service needs. Pure.
//!
//! Each call to the cloud depends on the results of earlier calls and writes. So [`plan`] returns the steps up to and
//! including the next call, and is called again with all answers so far to get the steps after it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Node, Object, Service};
use flyball_client::Patch;
use flyball_runtime::{Chain, Effect, ErrorKinds, Event, Message, Write};
use serde_json::{Value, json};

use super::backends::{Backends, listed};
use super::status::status_patch;
use crate::CloudError;

/// Keeps a Service until its load balancer is deleted.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// What this process has applied to the load balancer of a Service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Applied {
    /// The Service; `None` before it was applied, and after a failure.
    pub service: Option<Arc<Service>>,
    /// The nodes that the load balancer points to.
    pub backends: Backends,
}

/// What the decision depends on.
#[derive(Debug)]
pub struct View<'a> {
    pub service: &'a Service,
    pub applied: Option<&'a Applied>,
    /// The nodes that the load balancer should point to, by name.
    pub nodes: &'a [Arc<Node>],
    /// The same nodes, in the form in which they are compared.
    pub backends: &'a Backends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Leave,
    /// Create or update the load balancer.
    Ensure,
    /// Update only the nodes of the load balancer.
    UpdateNodes,
    /// Delete the load balancer, then remove the finalizer.
    CleanUp,
}

/// One step. A call is always the last step of a plan, because its answer determines the following steps.
#[derive(Debug)]
pub enum Step {
    Api(Effect<IfGone>),
    Call(Call),
    Record(RecordChange),
    /// Sync again after this long; nothing follows.
    Requeue(Duration),
}

/// What to do if a write fails because the Service does not exist any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfGone {
    Continue,
    /// Skip the remaining steps, and plan again with [`Answer::Gone`].
    PlanAgain,
}

/// A call to the cloud about the load balancer of the Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Get,
    Ensure,
    UpdateNodes,
    Delete,
}

/// The answer to a [`Call`], or to a write that fails because the Service is gone.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Whether there is a load balancer.
    Found(bool),
    Ensured(LoadBalancerStatus),
    /// Updated or deleted.
    Done,
    /// Another component manages the load balancer.
    ManagedElsewhere,
    /// The Service does not exist any more, see [`IfGone::PlanAgain`].
    Gone,
    Failed {
        error: String,
        /// The delay that the cloud requires before the next call.
        retry_after: Option<Duration>,
    },
}

impl Answer {
    /// What an error of the cloud means. That another component manages the load balancer is no failure, except for `Get`, which has to
    /// say whether there is one.
    pub fn of_error(call: Call, error: &CloudError) -> Self {
        match error {
            CloudError::ImplementedElsewhere if call != Call::Get => Self::ManagedElsewhere,
            error => Self::Failed { retry_after: error.retry_after(), error: Chain(error).to_string() },
        }
    }
}

/// A change of the controller's records or metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChange {
    /// The load balancer is about to change.
    Begun,
    /// The load balancer is as the Service specifies.
    Ensured,
    /// There is no load balancer any more.
    Deleted,
    /// The nodes of the load balancer could not be updated.
    UpdateFailed,
}

pub fn action(view: &View<'_>) -> Action {
    let View { service, applied, backends, .. } = view;
    if !wants_balancer(service) || needs_cleanup(service) {
        return Action::CleanUp;
    }
    if service.metadata.is_deleting() {
        // Without the finalizer it has no load balancer, and none is created during its deletion.
        return Action::Leave;
    }
    let Some(Applied { service: Some(applied), backends: has }) = applied else { return Action::Ensure };
    // Every load balancer begins with the finalizer. Without it, a restore of etcd has undone what was written.
    if differ(applied, service) || with_finalizer(service).is_some() {
        return Action::Ensure;
    }
    if has == *backends { Action::Leave } else { Action::UpdateNodes }
}

/// A clean-up that failed is tried again after this long, whatever the backoff and whatever delay the cloud requires.
const CLEANUP_PERIOD: Duration = Duration::from_secs(30);

/// After which delay to sync the Service again, besides its retries.
pub fn sync_again_after(view: &View<'_>, is_settled: bool) -> Option<Duration> {
    (action(view) == Action::CleanUp && !is_settled).then_some(CLEANUP_PERIOD)
}

/// The next steps, given the answers of the cloud so far.
pub fn plan(view: &View<'_>, answers: &[Answer]) -> Vec<Step> {
    match action(view) {
        Action::Leave => vec![],
        Action::Ensure => ensure(view, answers),
        Action::UpdateNodes => update_nodes(view, answers),
        Action::CleanUp => clean_up(view.service, answers),
    }
}

fn ensure(view: &View<'_>, answers: &[Answer]) -> Vec<Step> {
    let service = view.service;
    match answers {
        [] => {
            let add = with_finalizer(service).map(|patch| write(service, patch, Purpose::AddFinalizer));
            let ensuring = Event::normal("EnsuringLoadBalancer", "Ensuring load balancer").into();
            let no_nodes = view.nodes.is_empty().then(|| no_nodes().into());
            [Step::Record(RecordChange::Begun), ensuring]
                .into_iter()
                .chain(add)
                .chain(no_nodes)
                .chain([Step::Call(Call::Ensure)])
                .collect()
        }
        [Answer::Ensured(status)] => {
            let ensured = Event::normal("EnsuredLoadBalancer", "Ensured load balancer").into();
            [ensured]
                .into_iter()
                .chain(write_status(service, status))
                .chain([Step::Record(RecordChange::Ensured)])
                .collect()
        }
        [Answer::Failed { error, retry_after }] => {
            failed("failed to ensure load balancer", error, *retry_after)
        }
        // It was deleted before it got the finalizer, so it has no load balancer.
        [Answer::Gone] => vec![Step::Record(RecordChange::Deleted)],
        _ => vec![Step::Record(RecordChange::Ensured)],
    }
}

/// Updates the nodes. If that fails, the Service is requeued at once, to ensure the whole load balancer.
fn update_nodes(view: &View<'_>, answers: &[Answer]) -> Vec<Step> {
    match answers {
        [] => vec![Step::Record(RecordChange::Begun), Step::Call(Call::UpdateNodes)],
        [Answer::Done] if view.nodes.is_empty() => {
            vec![no_nodes().into(), Step::Record(RecordChange::Ensured)]
        }
        [Answer::Done] => {
            let updated = Event::normal("UpdatedLoadBalancer", "Updated load balancer with new hosts");
            vec![updated.into(), Step::Record(RecordChange::Ensured)]
        }
        // The failure does not matter if there is no load balancer.
        [Answer::Failed { .. }] => vec![Step::Call(Call::Get)],
        [Answer::Failed { error, .. }, Answer::Found(true) | Answer::Failed { .. }] => {
            let message = format!(
                "Error updating load balancer with new hosts {} [node names limited, total number of nodes: {}], error: {error}",
                listed(view.nodes),
                view.nodes.len(),
            );
            let failed = Event::warning("UpdateLoadBalancerFailed", message).into();
            vec![Step::Record(RecordChange::UpdateFailed), failed, Step::Requeue(Duration::ZERO)]
        }
        _ => vec![Step::Record(RecordChange::Ensured)],
    }
}

fn clean_up(service: &Service, answers: &[Answer]) -> Vec<Step> {
    match answers {
        [] => vec![Step::Record(RecordChange::Begun), Step::Call(Call::Get)],
        [Answer::Found(true)] => vec![deleting(), Step::Call(Call::Delete)],
        [Answer::Failed { error, retry_after }] => {
            failed("failed to check if load balancer exists before cleanup", error, *retry_after)
        }
        [.., Answer::Failed { error, retry_after }] => {
            failed("failed to delete load balancer", error, *retry_after)
        }
        _ => {
            let remove =
                without_finalizer(service).map(|patch| write(service, patch, Purpose::RemoveFinalizer));
            let rest = [Step::Record(RecordChange::Deleted), deleted()];
            remove
                .into_iter()
                .chain(rest)
                .chain(write_status(service, &LoadBalancerStatus::default()))
                .collect()
        }
    }
}

/// The steps to delete the load balancer of a Service that was deleted without its finalizer.
pub fn plan_deleted(service: &Service, answers: &[Answer]) -> Vec<Step> {
    match answers {
        [] if !wants_balancer(service) => vec![Step::Record(RecordChange::Deleted)],
        [] => vec![deleting(), Step::Call(Call::Delete)],
        [Answer::Failed { error, retry_after }] => deletion_failed(error, *retry_after),
        // The Service is gone. If this counted as success, the load balancer could be leaked.
        [Answer::ManagedElsewhere] => deletion_failed(&CloudError::ImplementedElsewhere.to_string(), None),
        _ => vec![deleted(), Step::Record(RecordChange::Deleted)],
    }
}

fn deletion_failed(error: &str, retry_after: Option<Duration>) -> Vec<Step> {
    let event = Event::warning("DeleteLoadBalancerFailed", format!("Error deleting load balancer: {error}"));
    vec![event.into(), requeue_or_retry("failed to delete load balancer", error, retry_after)]
}

fn deleting() -> Step {
    Event::normal("DeletingLoadBalancer", "Deleting load balancer").into()
}

fn deleted() -> Step {
    Event::normal("DeletedLoadBalancer", "Deleted load balancer").into()
}

fn no_nodes() -> Event {
    Event::warning("UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
}

/// Writes the status of the load balancer, if it changes.
fn write_status(service: &Service, status: &LoadBalancerStatus) -> Option<Step> {
    Some(write(service, status_patch(service, status)?, Purpose::Status))
}

const FAILED: &str = "SyncLoadBalancerFailed";
const FAILED_MESSAGE: &str = "Error syncing load balancer: ";

/// A patch of the status; an event reports its failure.
fn write(service: &Service, patch: Value, purpose: Purpose) -> Step {
    let (if_gone, why, prefix) = purpose.words();
    let write = Write::patch::<Service>(service.key(), Patch::Strategic(patch))
        .subresource("status")
        .why(why)
        .ignore(ErrorKinds::NOT_FOUND)
        .failure_prefix(prefix)
        .tag(if_gone);
    let failed = Event::warning(FAILED, Message::ThenError(FAILED_MESSAGE.to_owned()));
    Step::Api(Effect::sequence([write]).on_failure(failed).into())
}

#[derive(Clone, Copy)]
enum Purpose {
    AddFinalizer,
    RemoveFinalizer,
    Status,
}

impl Purpose {
    /// What to do if the Service does not exist, the reason for the decision log, and the prefix of the error in the
    /// event.
    fn words(self) -> (IfGone, &'static str, &'static str) {
        match self {
            Self::AddFinalizer => (
                IfGone::PlanAgain,
                "its load balancer must be deleted before it",
                "failed to add load balancer cleanup finalizer: ",
            ),
            Self::RemoveFinalizer => (
                IfGone::Continue,
                "its load balancer is deleted",
                "failed to remove load balancer cleanup finalizer: ",
            ),
            Self::Status => (
                IfGone::Continue,
                "the status of its load balancer has changed",
                "failed to update load balancer status: ",
            ),
        }
    }
}

/// The last steps after a failed call: an event, and the requeue or retry.
fn failed(doing: &str, error: &str, retry_after: Option<Duration>) -> Vec<Step> {
    let event = Event::warning(FAILED, format!("{FAILED_MESSAGE}{doing}: {error}"));
    vec![event.into(), requeue_or_retry(doing, error, retry_after)]
}

/// The last step after a failed call: a requeue after the delay that the cloud requires, or else a retry with backoff.
fn requeue_or_retry(doing: &str, error: &str, retry_after: Option<Duration>) -> Step {
    match retry_after {
        Some(after) => Step::Requeue(after),
        None => Step::Api(Effect::Fail(format!("{doing}: {error}"))),
    }
}

impl From<Event> for Step {
    fn from(event: Event) -> Self {
        Self::Api(event.into())
    }
}

/// For tables in tests.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api(effect) => write!(f, "{effect}"),
            Self::Call(call) => write!(f, "call {call:?}"),
            Self::Record(change) => write!(f, "record {change:?}"),
            Self::Requeue(after) => write!(f, "again after {after:?}"),
        }
    }
}

/// Whether a Service should have a load balancer of the cloud.
pub fn wants_balancer(service: &Service) -> bool {
    service.spec.type_ == "LoadBalancer" && service.spec.load_balancer_class.is_none()
}

/// Whether a Service may still have a load balancer that it does not need any more.
pub fn needs_cleanup(service: &Service) -> bool {
    service.metadata.has_finalizer(FINALIZER)
        && (service.metadata.is_deleting() || service.spec.type_ != "LoadBalancer")
}

/// Whether the load balancer may have to change when a Service changes from `old` to `new`.
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
        // The primary family is immutable, so only the number of families can change.
        || a.ip_families.len() != b.ip_families.len()
}

/// The patch of a Service's status that adds the finalizer after all others; `None` if the Service has it.
pub fn with_finalizer(service: &Service) -> Option<Value> {
    let order = service.metadata.finalizers.iter().map(|finalizer| finalizer.as_str()).chain([FINALIZER]);
    let patch = || {
        json!({"metadata": {
            "uid": service.metadata.uid,
            "finalizers": [FINALIZER],
            "$setElementOrder/finalizers": order.collect::<Vec<&str>>(),
        }})
    };
    (!service.metadata.has_finalizer(FINALIZER)).then(patch)
}

/// The patch that removes the finalizer; `None` if the Service does not have it.
pub fn without_finalizer(service: &Service) -> Option<Value> {
    let patch = || json!({"metadata": {"uid": service.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    service.metadata.has_finalizer(FINALIZER).then(patch)
}
