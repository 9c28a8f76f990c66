//! The shell: look up, adopt, find the revision, plan, execute, trim the history, write the status.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{ControllerRevision, DaemonSet, Key, Node, Object, Selector};
use flyball_cache::Informer;
use flyball_common::adoption::{adopt_and_release, selector_of};
use flyball_common::index::{by_node, owned_or_orphaned};
use flyball_common::revisions::{self, Created};
use flyball_queue::{Priority, Queue};
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Executor, Next, Plan, Reconcile, SyncError};

use super::backoff::Backoff;
use super::history::{self, obsolete};
use super::invariants;
use super::manifests::{HASH, target_node};
use super::placement::Placement;
use super::plan::{Why, deleted, plan, selects_all};
use super::status::after;
use super::triggers;
use super::view::View;

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
        let executor = self.cx.executor(key).about(ObjectRef::of(&*set)).events(&self.events);
        if let Some(event) = selects_all(&set) {
            return executor.execute(Plan::<()>::of([event])).await;
        }
        // Its pods and revisions are deleted in any order, so no status would be correct.
        if set.is_deleting() {
            return Ok(Next::Settled);
        }
        let selector = selector_of(key, Selector::from_object(set.spec.selector.as_ref()))?;
        let history = owned_or_orphaned(self.revisions.store(), &key.namespace, set.uid());
        let history = adopt_and_release(&self.cx, &*set, &selector, history, &[]).await?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let pods = adopt_and_release(&self.cx, &*set, &selector, candidates, &[]).await?;
        let (revision, old) = self.revision(&executor, &set, history, &pods).await?;

        let (nodes, now) = (self.nodes.store().list(), self.cx.clock.now());
        let hash = revision.metadata.labels.get(HASH).unwrap_or_default();
        let placement = Placement::of(&set, self.comparisons);
        let mut view = View::new(&set, &nodes, &pods, hash, &placement, now);
        let failed =
            pods.iter().filter(|pod| pod.status.phase == Phase::Failed).filter_map(|pod| target_node(pod));
        view.backoff =
            failed.filter_map(|node| Some((node.clone(), self.backoff.wait(&set, &node, now)?))).collect();

        let plan = plan(&view).map_err(|error| {
            SyncError::other(format!("reading the update strategy of {key}"), error).never()
        })?;
        self.cx.judge(|| invariants::check(&view, &plan));
        let failed = deleted(&plan).into_iter().filter(|deletion| deletion.why == Why::Failed);
        failed.for_each(|deletion| self.backoff.failed(&set, deletion.node, now));
        let done = executor.run(plan).await;
        let after = after(&view, &done.outcome, &obsolete(&set, &old, &pods));
        let after = executor.perform([after]).await;
        let next = done.result()?;
        after.result().map(|()| next)
    }
}

impl Controller {
    /// The revision of the set's template, which is created if it is new, and the older ones.
    async fn revision(
        &self,
        executor: &Executor<'_>,
        set: &DaemonSet,
        mut history: Vec<Arc<ControllerRevision>>,
        pods: &[Arc<Pod>],
    ) -> Result<(Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>), SyncError> {
        let key = set.key();
        revisions::sort(&mut history);
        let labelled = executor.perform(history::label(&history)).await;
        history::after_label(&mut history, &labelled);
        labelled.result()?;
        let template = history::of_template(set, history, pods);
        executor.perform(template.effects).await.result()?;
        if !template.is_new {
            return Ok((template.revision, template.old));
        }
        let new = ControllerRevision::clone(&template.revision);
        match revisions::create(&self.cx, &key, new).await? {
            Created::Exists(revision) => Ok((revision, template.old)),
            Created::NameTaken => {
                executor.execute(history::collision(set)).await?;
                Err(SyncError::other(format!("naming the revision of {key}"), "its name is taken"))
            }
        }
    }
}

/// Finds the sets to sync after a change of a node.
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
