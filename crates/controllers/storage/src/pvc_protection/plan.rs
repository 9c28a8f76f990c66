//! When a pod uses a claim, and what follows for the claim. Pure.

use std::sync::Arc;

use flyball_api::persistent_volume_claim::PersistentVolumeClaimStatus;
use flyball_api::pod::{Pod, VolumeSource};
use flyball_api::{Condition, Object, PersistentVolumeClaim, ResourceVersion, Timestamp, condition};
use flyball_runtime::{Plan, Waiting, Write};
use smol_str::SmolStr;

use crate::finalizer::{self, Reasons};
use crate::usage::Uses;

/// The condition that says that no pod uses a claim.
pub const UNUSED: &str = "Unused";
const REASONS: Reasons = Reasons { protect: "pods may come to use it", release: "no pod uses it" };

/// Everything that the decision depends on.
pub struct View<'a> {
    pub claim: &'a PersistentVolumeClaim,
    /// The pods in the cache that may use it.
    pub pods: &'a [Arc<Pod>],
    /// Whether a pod on the server keeps it; read if [`needs_list`] says so.
    pub is_kept: Option<bool>,
    /// Whether claims have the condition `Unused`.
    pub reports_unused: bool,
    pub now: Timestamp,
}

/// Whether the pods on the server have to be listed: the claim is being deleted, and no pod in the cache keeps it.
pub fn needs_list(view: &View<'_>) -> bool {
    finalizer::is_releasable(view.claim) && !is_kept_in_cache(view)
}

/// The claims that the pods of a namespace used when they were last listed from the server.
pub struct Listed {
    pub namespace: SmolStr,
    /// Versions of different eras cannot be compared.
    pub era: u64,
    /// How far the cache of claims had come before. Versions of pods say nothing about claims, which may be in another etcd.
    pub claims_reached: ResourceVersion,
    pub uses: Uses,
}

impl Listed {
    /// Whether the list shows that no pod uses a claim. It must not be older than the deletion of the claim, which the cache of
    /// claims has shown before: kubelets do not start pods whose claim is being deleted.
    pub fn shows_unused(&self, claim: &PersistentVolumeClaim, era: u64) -> bool {
        self.namespace == claim.metadata.namespace
            && self.era == era
            && self.claims_reached >= claim.metadata.resource_version
            && !self.uses.contains(claim)
    }
}

/// Sets the condition if it has changed; otherwise adds the finalizer or removes it. Each write brings the claim back.
pub fn plan(view: &View<'_>) -> Plan {
    if let Some(status) = status(view) {
        return Plan::default().with_status(status);
    }
    let is_kept = is_kept_in_cache(view) || view.is_kept != Some(false);
    let waiting = (is_kept && finalizer::is_releasable(view.claim))
        .then(|| Waiting::on::<PersistentVolumeClaim>(&view.claim.key(), "to be used by no pod on a node"));
    Plan::of(finalizer::plan(view.claim, is_kept, REASONS)).waiting_for(waiting)
}

fn is_kept_in_cache(view: &View<'_>) -> bool {
    Uses::of(view.pods.iter().map(|pod| &**pod), keeps).contains(view.claim)
}

fn status(view: &View<'_>) -> Option<Write> {
    let claim = view.claim;
    if !view.reports_unused || claim.is_deleting() {
        return None;
    }
    let is_used = Uses::of(view.pods.iter().map(|pod| &**pod), refers).contains(claim);
    let conditions = conditions(claim, is_used, view.now)?;
    let status = PersistentVolumeClaimStatus { conditions, ..claim.status.clone() };
    let why = if is_used { "a pod refers to it" } else { "no pod refers to it" };
    Some(Write::status(claim, &status).why(why))
}

/// Whether a volume of a pod keeps its claim from being deleted. Only pods on a node count: no node starts one whose claim
/// is being deleted. A pod that its node has shut down does not keep the claims of its ephemeral volumes, or a finalizer of
/// the pod that waits for them would wait for ever; claims that the pod names are kept until it is gone.
pub fn keeps(pod: &Pod, source: &VolumeSource) -> bool {
    let is_on_node = !pod.spec.node_name.is_empty();
    is_on_node && (!matches!(source, VolumeSource::Ephemeral(_)) || !is_shut_down(pod))
}

/// Whether a volume of a pod refers to its claim: all pods count that have not ended.
pub fn refers(pod: &Pod, _: &VolumeSource) -> bool {
    !pod.has_stopped()
}

fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The conditions with the right `Unused`; `None` if it is right already.
pub fn conditions(claim: &PersistentVolumeClaim, is_used: bool, now: Timestamp) -> Option<Vec<Condition>> {
    let known = condition::find(&claim.status.conditions, UNUSED);
    if known.is_some_and(|known| known.is_true() != is_used) {
        return None;
    }
    let (status, reason, message) = match is_used {
        true => (condition::FALSE, "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => (condition::TRUE, "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let new = Condition {
        type_: UNUSED.into(),
        status: status.into(),
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    };
    let mut conditions = claim.status.conditions.clone();
    condition::set(&mut conditions, new);
    Some(conditions)
}
