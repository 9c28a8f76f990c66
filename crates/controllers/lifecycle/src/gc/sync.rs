//! The shell: examines one object, reads the state of its owners (`owners.rs`), plans, and executes the plan.

use std::sync::Arc;

use flyball_api::ObjectMeta;
use flyball_queue::{Priority, Queue};
use flyball_runtime::{Next, Reconcile, SyncError};
use futures::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};

use super::absent::{Absent, OwnerReads};
use super::act::Answer;
use super::graph::{Graph, Node, Trigger};
use super::identity::{Identity, Item};
use super::plan::{self, Dependents, Finalizer, Style, Target, View, needs_owner_check, plan};
use super::server::{Problem, Server};
use super::unserved::Unserved;

/// How many times a write is tried on an object that other clients change at the same time, before it is requeued.
pub(super) const TRIES: u32 = 5;
const AT_ONCE: usize = 50;

/// Graph, queues and server: what all workers share.
pub struct Collector<S> {
    pub(super) server: S,
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    pub(super) owner_reads: OwnerReads,
    pub(super) unserved: Mutex<Unserved>,
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
        Self { server, graph, absent, owner_reads: OwnerReads::default(), unserved, deletions, orphanings }
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
        let find = |graph: &Graph| graph.get(&item.uid).filter(|node| !node.has_vanished()).map(Subject::of);
        let Some(node) = self.read_graph(find) else { return Ok(Next::Settled) };
        if node.deleting && !node.waiting {
            // It is being deleted. Its deletion event will remove it from the graph.
            return Ok(Next::Settled);
        }
        let done = match node.waiting {
            true => self.complete(&node.identity).await,
            false => self.collect(&node.identity).await,
        };
        match done {
            Ok(()) if self.read_graph(find).is_some_and(|node| !node.observed) => {
                // It may have been created and deleted while its resource was not watched. Then no watch event removes
                // it from the graph, so it is requeued.
                let error = SyncError::other(
                    format!("waiting for a cache to show {item}"),
                    "no informer has seen it yet",
                );
                Err(error.expected())
            }
            Ok(()) | Err(Problem::NamespacedOwner) => Ok(Next::Settled),
            Err(Problem::UnknownKind(api_version, kind)) => {
                self.await_kind(item, api_version, kind).map_err(|problem| problem.into_error(item))
            }
            Err(problem) => Err(problem.into_error(item)),
        }
    }

    /// Deletes an object if all its owners are gone. Otherwise, removes its references to owners that are gone.
    async fn collect(&self, object: &Identity) -> Result<(), Problem> {
        let resource = self.resource(&object.api_version, &object.kind)?;
        if resource.namespaced && object.namespace.is_empty() {
            return Err(Problem::NamespacedOwner);
        }
        let target = Target { resource: &resource, object };
        // First with the cached object. That is safe, because its resourceVersion is a precondition of the deletion.
        let mut cached = self.server.cached(&resource, object);
        let mut refused: Option<ObjectMeta> = None;
        for _ in 0..TRIES {
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
            let refused_before = refused.as_ref();
            let plan_in = |style| {
                let (seen, standings) = (&seen, &*standings);
                plan(&View { target, seen, standings, dependents, refused: refused_before, style })
            };
            let planned = plan_in(Style::Strategic);
            if planned.writes().is_empty() {
                return self.keep(&seen);
            }
            let mut answer = self.perform(object, planned).await?;
            if answer == Answer::Unsupported {
                answer = self.perform(object, plan_in(Style::Merge)).await?;
            }
            match answer {
                Answer::Done | Answer::Missing => return Ok(()),
                Answer::Conflict | Answer::Unsupported => refused = is_live.then_some(seen),
            }
        }
        Err(Problem::KeepsChanging)
    }

    /// Leaves an object as it is. If its owner references differ from those in the graph, the cache is stale, and the
    /// object is requeued: if the references change back before the cache has shown the change, no event would cause
    /// another examination.
    fn keep(&self, seen: &ObjectMeta) -> Result<(), Problem> {
        let is_as_known = self.read_graph(|graph| {
            graph.get(&seen.uid).is_none_or(|node| *node.owners == *seen.owner_references)
        });
        match is_as_known || seen.is_deleting() {
            true => Ok(()),
            false => Err(Problem::KeepsChanging),
        }
    }

    /// Completes a foreground deletion if no dependent blocks it. Otherwise, queues the blocking dependents.
    async fn complete(&self, owner: &Identity) -> Result<(), Problem> {
        let mut blocking: Vec<Identity> = vec![];
        self.change(Priority::Change, |graph| {
            let nodes: Vec<&Node> = graph.blocking(&owner.uid).collect();
            blocking = nodes.iter().map(|node| node.identity.clone()).collect();
            let undeleted = nodes.into_iter().filter(|dependent| !dependent.deleting);
            undeleted.map(|dependent| Trigger::Examine(dependent.identity.item())).collect()
        });
        match blocking.is_empty() {
            true => self.remove_finalizer(owner, Finalizer::Foreground).await,
            false => self.perform(owner, plan::blocked(blocking.iter())).await.map(drop),
        }
    }

    /// Removes the references to one owner from its dependents, then the finalizer from the owner.
    pub async fn orphan(&self, item: &Item) -> Result<Next, SyncError> {
        let found = self.read_graph(|graph| {
            let owner = graph.get(&item.uid).filter(|node| node.orphaning)?.identity.clone();
            let dependents: Vec<Identity> =
                graph.dependents(&item.uid).map(|dependent| dependent.identity.clone()).collect();
            Some((owner, dependents))
        });
        let Some((owner, dependents)) = found else { return Ok(Next::Settled) };
        if !self.server.is_followed() {
            // A dependent whose resource is not watched yet would not be orphaned, and would be deleted later because
            // its owner is gone.
            let error = SyncError::other(
                format!("orphaning the dependents of {item}"),
                "discovery is not up to date",
            );
            return Err(error.expected());
        }
        self.absent().add_outlived(owner.uid.clone());
        let owners = [owner.uid.clone()];
        let owners = &owners;
        let released =
            stream::iter(dependents).map(|dependent| async move { self.release(&dependent, owners).await });
        let failures: Vec<Problem> = released
            .buffer_unordered(AT_ONCE)
            .filter_map(|released| async { released.err() })
            .collect()
            .await;
        if let Some(problem) = failures.into_iter().next() {
            return Err(problem.into_error(item));
        }
        let removed = self.remove_finalizer(&owner, Finalizer::Orphan).await;
        removed.map(|()| Next::Settled).map_err(|problem| problem.into_error(item))
    }
}

/// The properties of a graph node that determine how its object is examined.
struct Subject {
    identity: Identity,
    observed: bool,
    deleting: bool,
    waiting: bool,
}

impl Subject {
    fn of(node: &Node) -> Self {
        let observed = node.is_observed();
        Self { identity: node.identity.clone(), observed, deleting: node.deleting, waiting: node.waiting }
    }
}
