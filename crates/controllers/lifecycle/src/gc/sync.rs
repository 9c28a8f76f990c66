//! The shell: looks at one object, asks the server about its owners, and carries the verdict out.

use std::sync::Arc;

use flyball_api::{ObjectMeta, OwnerReference};
use flyball_client::DeleteOptions;
use flyball_queue::{Priority, Queue};
use flyball_runtime::{Next, Reconcile, SyncError};
use futures::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use smol_str::SmolStr;

use super::absent::{Absent, Turns};
use super::graph::{Effect, Graph, Node};
use super::identity::{Identity, Item};
use super::plan::{Dependents, Standing, Verdict, is_judged, judge, version_to_delete};
use super::server::{Problem, Server, is_object_missing};
use super::unserved::Unserved;
use super::{FOREGROUND, ORPHAN};

/// How often a write is tried anew on an object that changes meanwhile, before it has to wait.
pub(super) const TRIES: u32 = 5;
const AT_ONCE: usize = 50;

/// Graph, queues and server: what all workers share.
pub struct Collector<S> {
    pub(super) server: S,
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    pub(super) turns: Turns,
    pub(super) unserved: Mutex<Unserved>,
    pub(super) deletions: Queue<Item>,
    orphanings: Queue<Item>,
}

/// Works off the objects that may have to be deleted.
pub struct Delete<S>(pub Arc<Collector<S>>);

/// Works off the owners whose dependents are to be freed.
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
    /// An empty graph whose work goes into these queues.
    pub fn new(server: S, deletions: Queue<Item>, orphanings: Queue<Item>) -> Self {
        let (graph, absent, unserved) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { server, graph, absent, turns: Turns::default(), unserved, deletions, orphanings }
    }

    /// Changes or reads the graph, and queues what follows.
    pub fn change(&self, priority: Priority, change: impl FnOnce(&mut Graph) -> Vec<Effect>) {
        let effects = change(&mut self.graph.lock());
        for effect in effects {
            match effect {
                Effect::Examine(item) => self.deletions.add(item, priority),
                Effect::ExamineLater(item) => self.deletions.retry(item),
                Effect::Orphan(item) => self.orphanings.add(item, priority),
                Effect::Misplaced { dependent, reference } => {
                    let claimed = Identity::claimed(&reference, &dependent.namespace);
                    self.server.tell_misplaced(&dependent, &claimed);
                }
            }
        }
    }

    /// The owners that are known to be absent in the present era.
    pub(super) fn absent(&self) -> MutexGuard<'_, Absent> {
        let mut absent = self.absent.lock();
        absent.enter(self.server.era());
        absent
    }

    pub fn look<R>(&self, look: impl FnOnce(&Graph) -> R) -> R {
        look(&self.graph.lock())
    }

    /// Looks at one object: whether it is to be deleted, or may go at last.
    pub async fn examine(&self, item: &Item) -> Result<Next, SyncError> {
        let there = |graph: &Graph| graph.get(&item.uid).filter(|node| !node.has_vanished()).map(Subject::of);
        let Some(node) = self.look(there) else { return Ok(Next::Settled) };
        if node.deleting && !node.waiting {
            // Its end is certain, and will be heard of.
            return Ok(Next::Settled);
        }
        let done = match node.waiting {
            true => self.let_go(&node.identity).await,
            false => self.collect(&node.identity).await,
        };
        match done {
            Ok(()) if self.look(there).is_some_and(|node| !node.observed) => {
                // It may have come and gone while its cache was away; then nobody else would ever remove it.
                let error = SyncError::other(format!("waiting for a cache to show {item}"), "not seen yet");
                Err(error.expected())
            }
            Ok(()) | Err(Problem::NamespacedOwner) => Ok(Next::Settled),
            Err(Problem::UnknownKind(api_version, kind)) => {
                self.await_kind(item, api_version, kind).map_err(|problem| problem.into_error(item))
            }
            Err(problem) => Err(problem.into_error(item)),
        }
    }

    /// Deletes an object that has no owner left.
    async fn collect(&self, object: &Identity) -> Result<(), Problem> {
        let resource = self.resource(&object.api_version, &object.kind)?;
        if resource.namespaced && object.namespace.is_empty() {
            return Err(Problem::NamespacedOwner);
        }
        // Judged as the cache has it: the deletion takes effect in that version only.
        let mut cached = self.server.cached(&resource, object);
        let mut refused: Option<ObjectMeta> = None;
        for _ in 0..TRIES {
            let is_live = cached.is_none();
            let Some(seen) = self.view(&resource, object, &mut cached).await? else { return Ok(()) };
            if !is_judged(&seen) {
                return self.stays(&seen);
            }
            let standings = self.standings(object, &seen.owner_references).await?;
            let dependents = self.look(|graph| Dependents {
                any: graph.dependents(&object.uid).next().is_some(),
                any_waiting: graph.dependents(&object.uid).any(|dependent| dependent.waiting),
            });
            let (propagation, unblock_owners) = match judge(&seen, &standings, dependents) {
                Verdict::Keep => return self.stays(&seen),
                Verdict::Release(owners) => return self.release(&resource, object, &owners).await,
                Verdict::Delete { propagation, unblock_owners } => (propagation, unblock_owners),
            };
            if unblock_owners {
                self.unblock(&resource, object, &seen).await?;
            }
            let options = DeleteOptions {
                uid: Some(object.uid.clone()),
                resource_version: version_to_delete(refused.as_ref(), &seen),
                propagation: Some(propagation),
                grace_period: None,
            };
            let why = why(&seen.owner_references, &standings);
            match self.server.delete(&resource, object, options, &why).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_conflict() => refused = is_live.then_some(seen),
                Err(error) if is_object_missing(&error, &object.name) => {
                    self.is_absent(object.clone());
                    return Ok(());
                }
                Err(error) => return Err(Problem::Api("deleting it".to_owned(), error)),
            }
        }
        Err(Problem::KeepsChanging)
    }

    /// Leaves an object as it is. If it was judged by owners that no cache has shown, it is looked at again: should it
    /// get back the owners that the graph knows before a cache shows that it had others, nobody would notice.
    fn stays(&self, seen: &ObjectMeta) -> Result<(), Problem> {
        let is_as_known =
            self.look(|graph| graph.get(&seen.uid).is_none_or(|node| *node.owners == *seen.owner_references));
        match is_as_known || seen.is_deleting() {
            true => Ok(()),
            false => Err(Problem::KeepsChanging),
        }
    }

    /// Ends a deletion in the foreground once nobody blocks it any more; looks at those who do.
    async fn let_go(&self, owner: &Identity) -> Result<(), Problem> {
        let mut is_blocked = false;
        self.change(Priority::Change, |graph| {
            let blocking = graph.blocking(&owner.uid).inspect(|_| is_blocked = true);
            let unasked = blocking.filter(|dependent| !dependent.deleting);
            unasked.map(|dependent| Effect::Examine(dependent.identity.item())).collect()
        });
        if is_blocked {
            return Ok(());
        }
        self.remove_finalizer(owner, FOREGROUND, "none of its dependents blocks it any more").await
    }

    /// Frees the dependents of one owner, then lets it go.
    pub async fn orphan(&self, item: &Item) -> Result<Next, SyncError> {
        let found = self.look(|graph| {
            let owner = graph.get(&item.uid).filter(|node| node.orphaning)?.identity.clone();
            let dependents: Vec<Identity> =
                graph.dependents(&item.uid).map(|dependent| dependent.identity.clone()).collect();
            Some((owner, dependents))
        });
        let Some((owner, dependents)) = found else { return Ok(Next::Settled) };
        if !self.server.is_followed() {
            // A dependent of a kind that is not followed yet would be taken for one that lost its owner.
            let error =
                SyncError::other(format!("freeing the dependents of {item}"), "discovery is not up to date");
            return Err(error.expected());
        }
        let owners = [owner.uid.clone()];
        self.absent().add_outlived(owner.uid.clone());
        let owners = &owners;
        let freed = stream::iter(dependents).map(|dependent| async move {
            let resource = self.resource(&dependent.api_version, &dependent.kind)?;
            self.release(&resource, &dependent, owners).await
        });
        let failures: Vec<Problem> =
            freed.buffer_unordered(AT_ONCE).filter_map(|freed| async { freed.err() }).collect().await;
        if let Some(problem) = failures.into_iter().next() {
            return Err(problem.into_error(item));
        }
        let removed = self.remove_finalizer(&owner, ORPHAN, "its dependents no longer refer to it").await;
        removed.map(|()| Next::Settled).map_err(|problem| problem.into_error(item))
    }

    /// How each owner is. Asks the server about all that are not known to be absent; but once one keeps the object,
    /// those that a cache shows are taken to live: if one does not, its end will be heard of.
    async fn standings(
        &self,
        object: &Identity,
        references: &[OwnerReference],
    ) -> Result<Vec<Standing>, Problem> {
        let living: Vec<bool> = self.look(|graph| {
            references.iter().map(|reference| graph.is_living(reference, &object.namespace)).collect()
        });
        let mut standings = vec![Standing::Solid; references.len()];
        let mut is_kept = false;
        let mut doubtful_first: Vec<usize> = (0..references.len()).collect();
        doubtful_first.sort_by_key(|n| living[*n]);
        for n in doubtful_first {
            if is_kept && living[n] {
                continue;
            }
            standings[n] = match self.standing(object, &references[n]).await? {
                Standing::Absent if self.absent().is_outlived(&references[n].uid) => Standing::Outlived,
                standing => standing,
            };
            is_kept |= standings[n] == Standing::Solid;
        }
        Ok(standings)
    }

    async fn standing(&self, object: &Identity, reference: &OwnerReference) -> Result<Standing, Problem> {
        if self.absent().has(reference, &object.namespace) {
            return Ok(Standing::Absent);
        }
        // What a server that does not serve the kind cannot say, a cache may have seen.
        let has_vanished = || self.look(|graph| graph.has_vanished(reference, &object.namespace));
        let resource = match self.resource(&reference.api_version, &reference.kind) {
            Err(Problem::UnknownKind(..)) if has_vanished() => return Ok(Standing::Absent),
            found => found?,
        };
        if resource.namespaced && object.namespace.is_empty() {
            return Err(Problem::NamespacedOwner);
        }
        let namespace = if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
        let owner = Identity::claimed(reference, &namespace);
        // The answer about an owner that lives is of use to nobody else, so nobody waits for it.
        let _turn = match self.look(|graph| graph.is_living(reference, &object.namespace)) {
            true => None,
            false => Some(self.turns.take(&owner).await),
        };
        if self.absent().has(reference, &object.namespace) {
            return Ok(Standing::Absent);
        }
        match self.server.read(&resource, &owner).await {
            Ok(meta) if meta.uid == owner.uid => Ok(Standing::of(&meta)),
            Err(error) if !is_object_missing(&error, &owner.name) => match error.is_not_found() {
                true if has_vanished() => Ok(Standing::Absent),
                _ => Err(Problem::Api(format!("reading its owner {} {}", owner.kind, owner.key()), error)),
            },
            // Not there, or another one of that name.
            Ok(_) | Err(_) => {
                self.absent().add(owner);
                Ok(Standing::Absent)
            }
        }
    }
}

/// What of a node decides how it is looked at.
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

/// The verdict in words, for the decision log.
fn why(references: &[OwnerReference], standings: &[Standing]) -> String {
    let named = |reference: &OwnerReference| format!("{} {}", reference.kind, reference.name);
    let of = |standing| {
        let all = references.iter().zip(standings).filter(move |(_, s)| **s == standing);
        all.map(|(reference, _)| named(reference)).collect::<Vec<_>>().join(", ")
    };
    match (of(Standing::Absent), of(Standing::Waiting)) {
        (absent, waiting) if waiting.is_empty() => format!("its owner is gone: {absent}"),
        (absent, waiting) if absent.is_empty() => {
            format!("its owner is being deleted and waits for it: {waiting}")
        }
        (absent, waiting) => format!("its owners are gone: {absent}; or wait for it: {waiting}"),
    }
}
