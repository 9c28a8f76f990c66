//! The shell: examines one object, reads the state of its owners (`owners.rs`), plans, and executes the plan.

use std::sync::Arc;

use flyball_api::ObjectMeta;
use flyball_queue::{Priority, Queue};
use flyball_runtime::{Next, Reconcile, SyncError};
use futures::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};

use super::absent::{Absent, OwnerReads};
use super::examination::{self, Conclusion, Examination, Step, TRIES, Tries, is_graph_behind, is_unseen};
use super::graph::{Graph, Trigger};
use super::identity::{Identity, Item};
use super::invariants;
use super::orphaning::{Awaiting, Orphaning, obstacle};
use super::plan::{self, Dependents, Finalizer, Style, Target, View, needs_owner_check, plan};
use super::server::{Problem, Server};
use super::unserved::Unserved;

const CONCURRENCY: usize = 50;

/// Graph, queues and server: what all workers share.
pub struct Collector<S> {
    pub(super) server: S,
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    pub(super) owner_reads: OwnerReads,
    pub(super) unserved: Mutex<Unserved>,
    awaiting: Mutex<Awaiting>,
    pub(super) deletions: Queue<Item>,
    orphanings: Queue<Item>,
}

/// Processes the objects that may have to be deleted.
pub struct Delete<S>(pub Arc<Collector<S>>);

/// Processes the owners whose dependents are to be orphaned.
pub struct Orphan<S>(pub Arc<Collector<S>>);

impl<S: Server> Reconcile<Item> for Delete<S> {
    async fn sync(&self, item: &Item) -> Result<Next, SyncError> {
        self.0.examine(item).await
    }
}

impl<S: Server> Reconcile<Item> for Orphan<S> {
    async fn sync(&self, item: &Item) -> Result<Next, SyncError> {
        self.0.orphan(item).await
    }
}

impl<S: Server> Collector<S> {
    /// A collector with an empty graph, which adds objects to these queues.
    pub fn new(server: S, deletions: Queue<Item>, orphanings: Queue<Item>) -> Self {
        let (graph, absent, unserved) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (owner_reads, awaiting) = (OwnerReads::default(), Mutex::default());
        Self { server, graph, absent, owner_reads, unserved, awaiting, deletions, orphanings }
    }

    /// Changes or reads the graph, and handles the triggers that result: adds objects to the queues, or records events.
    pub fn change(&self, priority: Priority, change: impl FnOnce(&mut Graph) -> Vec<Trigger>) {
        let triggers = change(&mut self.graph.lock());
        for trigger in triggers {
            match trigger {
                Trigger::Examine(item) => self.deletions.add(item, priority),
                Trigger::ExamineLater(item) => self.deletions.retry(item),
                Trigger::Orphan(item) => self.orphanings.add(item, priority),
                Trigger::Misplaced { dependent, reference } => {
                    let (about, event) = plan::misplaced(&dependent, &reference);
                    self.server.record(&about, event);
                }
            }
        }
    }

    /// The owners that are known not to exist. Those from before a restore of etcd are removed.
    pub(super) fn absent(&self) -> MutexGuard<'_, Absent> {
        let mut absent = self.absent.lock();
        absent.enter(self.server.era());
        absent
    }

    pub fn read_graph<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        read(&self.graph.lock())
    }

    /// Examines one object: whether it is to be deleted, or its foreground deletion can be completed.
    pub async fn examine(&self, item: &Item) -> Result<Next, SyncError> {
        let done = match self.read_graph(|graph| Examination::of(graph.get(&item.uid))) {
            Examination::Nothing => return Ok(Next::Settled),
            Examination::Complete(object) => self.complete(&object).await,
            Examination::Collect(object) => self.collect(&object).await,
        };
        let is_unseen = self.read_graph(|graph| is_unseen(graph.get(&item.uid)));
        match Conclusion::of(item, done, is_unseen) {
            Conclusion::Settled => Ok(Next::Settled),
            Conclusion::AwaitKind(api_version, kind) => {
                self.await_kind(item, api_version, kind).map_err(|problem| problem.into_error(item))
            }
            Conclusion::Retry(error) => Err(error),
        }
    }

    /// Deletes an object if all its owners are gone. Otherwise, removes its references to owners that are gone.
    async fn collect(&self, object: &Identity) -> Result<(), Problem> {
        let resource = self.resource(&object.kind.api_version, &object.kind.kind)?;
        if resource.namespaced && object.namespace.is_empty() {
            return Err(Problem::NamespacedOwner);
        }
        let target = Target { resource: &resource, object };
        // First with the cached object. That is safe, because its resourceVersion is a precondition of the deletion.
        let mut cached = self.server.cached(&resource, object);
        let mut tries = Tries::new(TRIES, Style::Strategic);
        loop {
            let is_live = cached.is_none();
            let Some(seen) = self.view(target, &mut cached).await? else { return Ok(()) };
            if !needs_owner_check(&seen) {
                return self.keep(&seen);
            }
            let standings = self.standings(object, &seen.owner_references).await?;
            let dependents = self.read_graph(|graph| Dependents {
                any: graph.dependents(&object.uid).next().is_some(),
                any_waiting: graph.dependents(&object.uid).any(|dependent| dependent.waiting),
            });
            loop {
                let (standings, refused, style) = (&*standings, tries.refused(), tries.style());
                let view = View { target, seen: &seen, standings, dependents, refused, style };
                let planned = plan(&view);
                if planned.writes().is_empty() {
                    return self.keep(&seen);
                }
                self.server.judge(|| invariants::check(&view, &planned));
                let answer = self.perform(object, planned).await?;
                match tries.record(answer, is_live.then_some(&seen)) {
                    Step::End => return Ok(()),
                    Step::WithMergePatches => {}
                    Step::ReadAgain => break,
                    Step::GiveUp => return Err(Problem::KeepsChanging),
                }
            }
        }
    }

    /// Leaves an object as it is, unless the graph is behind.
    fn keep(&self, seen: &ObjectMeta) -> Result<(), Problem> {
        match self.read_graph(|graph| is_graph_behind(graph.get(&seen.uid), seen)) {
            true => Err(Problem::KeepsChanging),
            false => Ok(()),
        }
    }

    /// Completes a foreground deletion if no dependent blocks it. Otherwise, queues the blocking dependents.
    async fn complete(&self, owner: &Identity) -> Result<(), Problem> {
        let (blocking, triggers) = self.read_graph(|graph| examination::blocking(graph, &owner.uid));
        self.change(Priority::Change, |_| triggers);
        match blocking.is_empty() {
            true => self.remove_finalizer(owner, Finalizer::Foreground).await,
            false => self.perform(owner, plan::blocked(blocking.iter())).await.map(drop),
        }
    }

    /// Called after each round of discovery: queues the owners whose orphaning waits for one.
    pub fn discovered(&self) {
        let owners = self.awaiting.lock().owners();
        owners.into_iter().for_each(|owner| self.orphanings.add(owner, Priority::Change));
    }

    /// Removes the references to one owner from its dependents, then the finalizer from the owner.
    pub async fn orphan(&self, item: &Item) -> Result<Next, SyncError> {
        let orphaning = {
            // The lock is held until it is decided: a round that ends meanwhile queues the owner again.
            let mut awaiting = self.awaiting.lock();
            let is_followed = self.server.has_followed(awaiting.since(item, self.server.mark()));
            let orphaning = self.read_graph(|graph| Orphaning::of(graph, &item.uid, is_followed));
            if orphaning != Orphaning::AwaitDiscovery {
                awaiting.end(item);
            }
            orphaning
        };
        let (owner, dependents) = match orphaning {
            Orphaning::Nothing | Orphaning::AwaitDiscovery => return Ok(Next::Settled),
            Orphaning::Release { owner, dependents } => (owner, dependents),
        };
        self.absent().add_outlived(owner.uid.clone());
        let owners = std::slice::from_ref(&owner.uid);
        let released =
            stream::iter(dependents).map(|dependent| async move { self.release(&dependent, owners).await });
        let done = match obstacle(released.buffered(CONCURRENCY).collect().await) {
            Some(problem) => Err(problem),
            None => self.remove_finalizer(&owner, Finalizer::Orphan).await,
        };
        done.map(|()| Next::Settled).map_err(|problem| problem.into_error(item))
    }
}
