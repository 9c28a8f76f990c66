//! How many pods to create, or which to delete. Pure.

use std::cmp::Ordering;
use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::pod::Pod;
use flyball_common::adoption::controller_reference;
use flyball_common::pods;
use flyball_common::spare::{Usefulness, least_useful};
use flyball_runtime::plan::Body;
use flyball_runtime::{Effect, Plan, Waiting};
use smol_str::format_smolstr;

use super::Replicated;

/// The most pods that one sync creates or deletes. The next sync continues, so that one huge set does not use up the
/// request rate of all others.
pub const BURST: usize = 500;

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a, T> {
    pub set: &'a T,
    /// The active pods that the set controls.
    pub pods: &'a [Arc<Pod>],
    /// The pods of all sets with the same controller, such as a Deployment. Empty without a controller.
    pub family: &'a [Arc<Pod>],
    /// Whether the annotation with the cost of a deletion counts (`PodDeletionCost`).
    pub has_costs: bool,
    pub now: Timestamp,
}

impl<'a, T: Replicated> View<'a, T> {
    /// The pods of which those that share a node are deleted first.
    pub(super) fn spread(&self) -> &'a [Arc<Pod>] {
        if T::SPREADS_OVER_NODES { self.family } else { &[] }
    }
}

/// The writes that bring the number of pods to `spec.replicas`. Deletions are tagged with their pod.
pub fn plan<'a, T: Replicated>(view: &View<'a, T>) -> Plan<Option<&'a Pod>> {
    let (have, want) = (view.pods.len(), view.set.replicas());
    let effect = match have.cmp(&want) {
        _ if view.set.is_deleting() => None,
        Ordering::Equal => None,
        Ordering::Less => Some(create(view, (want - have).min(BURST))),
        Ordering::Greater => Some(delete(view, (have - want).min(BURST))),
    };
    // Ready pods become available after `minReadySeconds` without any further change.
    let requeue = pods::next_available(view.pods, view.set.min_ready_seconds(), view.now);
    Plan::of(effect).again_after(requeue).waiting_for(unavailable(view))
}

fn create<'a, T: Replicated>(view: &View<'a, T>, count: usize) -> Effect<Option<&'a Pod>> {
    let (key, why) =
        (view.set.key(), format_smolstr!("{} pods, {} wanted", view.pods.len(), view.set.replicas()));
    match view.set.template() {
        Some(template) if !template.metadata.labels.is_empty() => {
            let body = Body::new(&pods::from_template(template, &key.name, &controller_reference(view.set)));
            let create = || pods::creation(&key, body.clone(), &why).tag(None);
            Effect::slow_start(std::iter::repeat_with(create).take(count)).into()
        }
        _ => Effect::Fail(pods::NO_LABELS.into()),
    }
}

fn delete<'a, T: Replicated>(view: &View<'a, T>, count: usize) -> Effect<Option<&'a Pod>> {
    let (have, want) = (view.pods.len(), view.set.replicas());
    let delete = |(pod, why): (&'a Pod, Usefulness<'_>)| {
        let why = format_smolstr!("{have} pods, {want} wanted; this one ranks first for deletion: {why}");
        pods::deletion(pod, why).tag(Some(pod))
    };
    let spare = least_useful(view.pods, view.spread(), count, view.has_costs, view.now);
    Effect::concurrent(spare.into_iter().map(delete)).into()
}

/// One of the pods that are not available yet.
fn unavailable<T: Replicated>(view: &View<'_, T>) -> Option<Waiting> {
    let min_ready_seconds = view.set.min_ready_seconds();
    let pod = view.pods.iter().find(|pod| !pod.is_available(min_ready_seconds, view.now))?;
    Some(Waiting::on::<Pod>(&pod.metadata.key(), "to become available"))
}
