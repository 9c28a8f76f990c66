//! Which pods to create and to delete, with their events, and what the set waits for. Pure.
//!
//! First, every node gets the pods that it should have ([`super::nodes`]). An update continues only when there is nothing
//! to do for that ([`super::update`]).

use std::time::Duration;

use flyball_api::intstr::InvalidPercentage;
use flyball_api::pod::Pod;
use flyball_api::{DaemonSet, LabelSelector};
use flyball_common::pods;
use flyball_runtime::{Effect, Event, Plan, Waiting, Write};
use smol_str::format_smolstr;

use super::manifests;
use super::nodes::nodes;
use super::status::time_to_available;
use super::update::update;
use super::view::View;

/// The most pods that one sync creates, and the most that it deletes: more would overload image registries.
pub const BURST: usize = 250;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It failed and is replaced.
    Failed,
    /// It succeeded and is replaced: daemon pods should not end.
    Succeeded,
    /// Its node has more pods than it should.
    Surplus,
    /// Its node should not run it.
    Misplaced,
    /// It is pending, and the node that it is for no longer exists.
    NodeGone,
    /// A newer pod on its node is available, or it is not ready itself.
    Superseded,
    /// It is of an old revision.
    Outdated,
}

impl Why {
    /// For the decision log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Failed => "it failed and is replaced",
            Self::Succeeded => "it ended and is replaced",
            Self::Surplus => "its node has more pods of this set than it should",
            Self::Misplaced => "its node should not run it",
            Self::NodeGone => "it is pending for a node that is gone",
            Self::Superseded => "a newer pod on its node takes over",
            Self::Outdated => "it is of an old revision",
        }
    }
}

/// What a write of the plan is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'a> {
    /// Creates a pod for a node.
    Create {
        node: &'a str,
    },
    Delete(Deletion<'a>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deletion<'a> {
    pub pod: &'a Pod,
    /// The node that it runs on, or that it is meant for.
    pub node: &'a str,
    pub why: Why,
}

/// Which nodes get a pod, and which pods are deleted.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    pub create: Vec<&'a str>,
    pub delete: Vec<Deletion<'a>>,
    /// The time until the backoff of a failed pod is over.
    pub retry_after: Option<Duration>,
}

/// The creations and deletions of pods, with their events.
///
/// # Errors
/// The bounds of the rolling update are neither numbers nor percentages.
pub fn plan<'a>(view: &'a View<'_>) -> Result<Plan<Step<'a>>, InvalidPercentage> {
    let changes = changes(view)?;
    let requeue = changes.retry_after.into_iter().chain(time_to_available(view)).min();
    Ok(Plan::of(effects(view, changes)).again_after(requeue).waiting_for(unavailable(view)))
}

/// The event about a set that selects all pods. Nothing else is done for such a set.
pub fn selects_all(set: &DaemonSet) -> Option<Event> {
    let message = "This daemon set is selecting all pods. A non-empty selector is required.";
    (set.spec.selector == Some(LabelSelector::default())).then(|| Event::warning("SelectingAll", message))
}

/// Creates missing pods and deletes wrong ones; if there are none, replaces pods of old revisions.
fn changes<'a>(view: &'a View<'_>) -> Result<Changes<'a>, InvalidPercentage> {
    let mut changes = nodes(view);
    if changes.is_empty() && view.is_rolling() {
        changes = Changes { retry_after: changes.retry_after, ..update(view)? };
    }
    changes.create.truncate(BURST);
    changes.delete.truncate(BURST);
    Ok(changes)
}

impl<'a> Changes<'a> {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    pub fn delete(&mut self, pod: &'a Pod, node: &'a str, why: Why) {
        self.delete.push(Deletion { pod, node, why });
    }
}

/// Creations in growing batches, then deletions concurrently, even if creations failed.
fn effects<'a>(view: &View<'_>, changes: Changes<'a>) -> Vec<Effect<Step<'a>>> {
    if changes.is_empty() {
        return vec![];
    }
    let create = Effect::slow_start(changes.create.iter().map(|node| creation(view, node)));
    let delete = Effect::concurrent(
        changes
            .delete
            .iter()
            .map(|deletion| pods::deletion(deletion.pod, deletion.why.text()).tag(Step::Delete(*deletion))),
    );
    let finished = changes.delete.iter().filter_map(finished).map(Effect::from);
    finished.chain([Effect::each([create, delete]).into()]).collect()
}

fn creation<'a>(view: &View<'_>, node: &'a str) -> Write<Step<'a>> {
    let why = format_smolstr!("node {node} should run a pod and has none");
    let body = manifests::pod(view.set, view.hash, node);
    pods::creation(&view.set.metadata.key(), body.into(), &why).tag(Step::Create { node })
}

/// The event about a pod that has finished and will be deleted.
fn finished(deletion: &Deletion<'_>) -> Option<Event> {
    let (pod, node) = (deletion.pod.metadata.key(), deletion.node);
    match deletion.why {
        Why::Failed => {
            let message = format!("Found failed daemon pod {pod} on node {node}, will try to kill it");
            Some(Event::warning("FailedDaemonPod", message))
        }
        Why::Succeeded => {
            let message = format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it");
            Some(Event::normal("SucceededDaemonPod", message))
        }
        _ => None,
    }
}

/// One of the running pods that are not available yet, if there is one.
fn unavailable(view: &View<'_>) -> Option<Waiting> {
    let wanted = view
        .daemon_nodes
        .values()
        .filter(|on_node| on_node.fit.should_run)
        .filter_map(|on_node| on_node.pods.first());
    let pod = wanted.into_iter().find(|pod| !pod.is_finished() && !view.is_available(pod))?;
    Some(Waiting::on::<Pod>(&pod.metadata.key(), "to become available"))
}

/// The nodes for which a plan creates pods.
pub fn created<'a>(plan: &Plan<Step<'a>>) -> Vec<&'a str> {
    let node = |write: &Write<Step<'a>>| match write.tag {
        Step::Create { node } => Some(node),
        Step::Delete(_) => None,
    };
    plan.writes().into_iter().filter_map(node).collect()
}

/// The pods that a plan deletes.
pub fn deleted<'a>(plan: &Plan<Step<'a>>) -> Vec<Deletion<'a>> {
    let deletion = |write: &Write<Step<'a>>| match write.tag {
        Step::Create { .. } => None,
        Step::Delete(deletion) => Some(deletion),
    };
    plan.writes().into_iter().filter_map(deletion).collect()
}
