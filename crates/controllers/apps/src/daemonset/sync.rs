//! The shell: look up, claim, find the revision, plan, execute, trim the history, write the status.

use std::sync::Arc;

use flyball_api::daemon_set::DaemonSetStatus;
use flyball_api::pod::{Phase, Pod};
use flyball_api::{
    ControllerRevision, DaemonSet, Key, LabelSelector, Node, Object, Selector, manifest_with_status,
};
use flyball_cache::Informer;
use flyball_common::claim::claim;
use flyball_common::gather::gather;
use flyball_common::index::{by_node, owned_or_orphaned};
use flyball_common::pods::{self, PodError};
use flyball_common::revisions;
use flyball_common::slow_start::slow_start;
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::backoff::Backoff;
use super::history::{self, obsolete};
use super::manifests::{self, HASH, target_node};
use super::placement::Placement;
use super::plan::{Plan, Why, plan};
use super::status::{is_news, status, time_to_available};
use super::triggers;
use super::view::View;

/// The controller.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) sets: Arc<Informer<DaemonSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) revisions: Arc<Informer<ControllerRevision>>,
    pub(super) backoff: Backoff,
    pub(super) comparisons: bool,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(set) = self.sets.store().get(key) else { return Ok(Next::Settled) };
        if set.spec.selector == Some(LabelSelector::default()) {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.warning(&ObjectRef::of(&*set), "SelectingAll", message);
            return Ok(Next::Settled);
        }
        // Its pods and revisions may go in any order, so that nothing true could be said about it.
        if set.is_deleting() {
            return Ok(Next::Settled);
        }
        let selector = Selector::from_object(set.spec.selector.as_ref())
            .map_err(|error| SyncError::other(format!("reading the selector of {key}"), error).never())?;
        let history = owned_or_orphaned(self.revisions.store(), &key.namespace, set.uid());
        let history = claim(&self.cx, &*set, &selector, history, &[]).await?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let pods = claim(&self.cx, &*set, &selector, candidates, &[]).await?;
        let (current, old) = history::of_template(&self.cx, &set, history, &pods).await?;

        let (nodes, now) = (self.nodes.store().list(), self.cx.clock.now());
        let hash = current.metadata.labels.get(HASH).unwrap_or_default();
        let placement = Placement::of(&set, self.comparisons);
        let mut view = View::new(&set, &nodes, &pods, hash, &placement, now);
        let failed =
            pods.iter().filter(|pod| pod.status.phase == Phase::Failed).filter_map(|pod| target_node(pod));
        view.backoff =
            failed.filter_map(|node| Some((node.clone(), self.backoff.wait(&set, &node, now)?))).collect();
        let plan = plan(&view).map_err(|error| {
            SyncError::other(format!("reading the update strategy of {key}"), error).never()
        })?;

        let (made, acted) = match self.execute(&view, key, &plan).await {
            Some(failure) => (&[][..], Err(failed_pods(key, failure))),
            None => (&plan.create[..], self.trim(&set, key, &old, &pods).await),
        };
        let status = status(&view, made);
        let written = self.write_status(&set, &status).await;
        acted.and(written).map(|()| {
            let waits = plan.again.into_iter().chain(time_to_available(&view, &status, &pods));
            waits.min().map_or(Next::Settled, Next::After)
        })
    }
}

impl Controller {
    /// Carries a plan out: creations in growing batches, then deletions side by side.
    async fn execute(&self, view: &View<'_>, key: &Key, plan: &Plan<'_>) -> Option<PodError> {
        let about = &ObjectRef::of(view.set);
        self.tell_of_ended(view, about, plan);
        let make = |at: usize| {
            let node = plan.create[at];
            async move {
                let body = manifests::pod(view.set, view.hash, node);
                let why = format!("node {node} should run a pod and has none");
                match pods::create(&self.cx, &self.events, key, about, &body, &why).await {
                    Err(PodError::Create(error)) if pods::is_namespace_going(&error) => Ok(()),
                    other => other.map(drop),
                }
            }
        };
        let made = slow_start(plan.create.len(), make).await;
        let deletions = plan.delete.iter().map(|&(pod, _, why)| async move {
            pods::delete(&self.cx, &self.events, key, about, pod, why.text()).await
        });
        let deleted = gather(deletions).await;
        made.failure.or_else(|| deleted.into_iter().find_map(Result::err))
    }

    /// Tells users of pods that ended, and notes failures, so that they do not come ever faster.
    fn tell_of_ended(&self, view: &View<'_>, about: &ObjectRef, plan: &Plan<'_>) {
        for (pod, node, why) in &plan.delete {
            let key = pod.metadata.key();
            match why {
                Why::Failed => {
                    self.backoff.failed(view.set, node, view.now);
                    let message =
                        format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                    self.events.warning(about, "FailedDaemonPod", message);
                }
                Why::Succeeded => {
                    let message =
                        format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                    self.events.normal(about, "SucceededDaemonPod", message);
                }
                _ => {}
            }
        }
    }

    /// Deletes the revisions that exceed the limit.
    async fn trim(
        &self,
        set: &DaemonSet,
        key: &Key,
        old: &[Arc<ControllerRevision>],
        pods: &[Arc<Pod>],
    ) -> Result<(), SyncError> {
        for revision in obsolete(set, old, pods) {
            let why = "nothing runs it and newer ones fill the history";
            revisions::delete(&self.cx, key, revision, why).await?;
        }
        Ok(())
    }

    /// Writes the status if it says anything new.
    async fn write_status(&self, set: &DaemonSet, status: &DaemonSetStatus) -> Result<(), SyncError> {
        if !is_news(&set.status, status) {
            return Ok(());
        }
        let key = set.key();
        let DaemonSetStatus { desired_number_scheduled: desired, number_ready: ready, .. } = status;
        let why = format!("{desired} nodes should run a pod, {ready} are ready");
        let body = manifest_with_status(set, status);
        let written = self.cx.writer(&key).update_status::<DaemonSet>(&key, &body, why).await;
        match written {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop).map_err(SyncError::api(format!("writing the status of {key}"))),
        }
    }
}

fn failed_pods(key: &Key, failure: PodError) -> SyncError {
    let doing = format!("bringing the pods of {key} to its nodes");
    match failure {
        PodError::Create(error) | PodError::Delete(error) => SyncError::api(doing)(error),
        other => SyncError::other(doing, other),
    }
}

/// Finds the sets that a changed node concerns.
pub(super) struct NodeWatch {
    pub(super) sets: Arc<Informer<DaemonSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) queue: Queue<Key>,
    pub(super) comparisons: bool,
}

impl Reconcile for NodeWatch {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        if let Some(node) = self.nodes.store().get(key) {
            let there = self.pods.store().by(&by_node(), &node.metadata.name);
            for set in triggers::node_changed(&node, &there, self.sets.store(), self.comparisons) {
                self.queue.add(set, Priority::Change);
            }
        }
        Ok(Next::Settled)
    }
}
