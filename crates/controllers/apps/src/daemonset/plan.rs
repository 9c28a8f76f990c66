//! Which nodes get a pod and which pods go. Pure.
//!
//! First every node is brought to one living pod, or two while one replaces the other. Only when there is nothing
//! to do for that does an update go on, as [`super::update`] says.

use std::time::Duration;

use flyball_api::intstr::InvalidPercentage;
use flyball_api::pod::{Phase, Pod};

use super::manifests::HASH;
use super::update::update;
use super::view::{Spot, View};

/// Most pods that one sync makes, and most that it deletes: more at once would overrun image registries.
pub const BURST: usize = 250;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It failed; another takes its place.
    Failed,
    /// It ended, which daemons are not meant to.
    Succeeded,
    /// Its node has more pods than it should.
    Surplus,
    /// Its node should not run it.
    Misplaced,
    /// It waits for a node that is gone.
    NodeGone,
    /// A newer one beside it has taken over, or it does not serve any more.
    Superseded,
    /// It is of an old revision.
    Outdated,
}

impl Why {
    /// In words, for the decision log.
    pub fn text(self) -> &'static str {
        match self {
            Self::Failed => "it failed and another is to take its place",
            Self::Succeeded => "it ended, which daemons are not meant to",
            Self::Surplus => "its node has more pods of this set than it should",
            Self::Misplaced => "its node should not run it",
            Self::NodeGone => "it waits for a node that is gone",
            Self::Superseded => "a newer pod on its node takes over",
            Self::Outdated => "it is of an old revision",
        }
    }
}

/// What to do.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Nodes that get a pod.
    pub create: Vec<&'a str>,
    /// Pods that go, with the node that they are on or for.
    pub delete: Vec<(&'a Pod, &'a str, Why)>,
    /// When a pod that is left alone for now is to be looked at again.
    pub again: Option<Duration>,
}

/// The steps that bring the nodes closer to what the set asks for.
///
/// # Errors
/// The bounds of the rolling update make no sense.
pub fn plan<'a>(view: &'a View<'_>) -> Result<Plan<'a>, InvalidPercentage> {
    let mut plan = Plan::default();
    for (node, spot) in &view.spots {
        manage(view, node, spot, &mut plan);
    }
    if plan.create.is_empty() && plan.delete.is_empty() && view.is_rolling() {
        let again = plan.again;
        plan = Plan { again, ..update(view)? };
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    Ok(plan)
}

/// Brings one node to the pods that it should have.
fn manage<'a>(view: &View<'_>, node: &'a str, spot: &'a Spot<'a>, plan: &mut Plan<'a>) {
    let alive = spot.pods.iter().filter(|pod| !pod.metadata.is_deleting());
    if !spot.exists {
        // Those that are on a node are for the pod garbage collector; those that wait for it, nobody else sees.
        let waiting = spot.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        plan.delete.extend(waiting.map(|pod| (*pod, node, Why::NodeGone)));
    } else if spot.fit.should_run && spot.pods.is_empty() {
        plan.create.push(node);
    } else if spot.fit.may_stay {
        prune(view, node, spot, plan);
    } else {
        plan.delete.extend(alive.map(|pod| (*pod, node, Why::Misplaced)));
    }
}

/// Takes away what has ended and what is too much on a node whose pods may stay.
fn prune<'a>(view: &View<'_>, node: &'a str, spot: &'a Spot<'a>, plan: &mut Plan<'a>) {
    let mut wait = view.backoff.get(node).copied();
    let mut running = vec![];
    for pod in spot.pods.iter().copied().filter(|pod| !pod.metadata.is_deleting()) {
        match (pod.status.phase, wait) {
            // The kubelet may be refusing them: replacing them at full speed would never end.
            (Phase::Failed, Some(wait)) => plan.again = plan.again.into_iter().chain([wait]).min(),
            (Phase::Failed, None) => {
                plan.delete.push((pod, node, Why::Failed));
                wait = Some(super::backoff::FIRST);
            }
            (Phase::Succeeded, _) => plan.delete.push((pod, node, Why::Succeeded)),
            _ => running.push(pod),
        }
    }
    if !view.is_surging() {
        plan.delete.extend(running.into_iter().skip(1).map(|pod| (pod, node, Why::Surplus)));
    } else if running.is_empty() && spot.fit.should_run {
        plan.create.push(node);
    } else if running.len() > 1 {
        hand_over(view, node, running, plan);
    }
}

/// Of several pods on one node, keeps the oldest new one, and beside it the oldest old one as long as that serves
/// and the new one does not.
fn hand_over<'a>(view: &View<'_>, node: &'a str, running: Vec<&'a Pod>, plan: &mut Plan<'a>) {
    let (mut new, mut old) = (None, None);
    for pod in running {
        let is_new = pod.metadata.labels.get(HASH) == Some(view.hash);
        let first = if is_new { &mut new } else { &mut old };
        match first {
            None => *first = Some(pod),
            Some(_) => plan.delete.push((pod, node, Why::Surplus)),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.is_ready() || view.is_available(new))
    {
        plan.delete.push((old, node, Why::Superseded));
    }
}
