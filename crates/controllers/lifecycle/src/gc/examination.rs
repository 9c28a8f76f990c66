//! How one object is examined: what for, which of its owners are read, and what its answers mean. Pure.

use std::collections::VecDeque;

use flyball_api::{ObjectMeta, OwnerReference, ResourceType, Uid};
use flyball_client::Error;
use flyball_runtime::SyncError;
use smol_str::SmolStr;

use super::graph::{Graph, Node, Trigger};
use super::identity::{Identity, Item};
use super::plan::{Standing, Style};
use super::server::{Problem, is_object_missing};

/// The code for a kind of patch that a resource does not take.
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;

/// What to find out about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Examination {
    /// Nothing: it is gone, or it is being deleted, and its deletion event will remove it from the graph.
    Nothing,
    /// Whether its foreground deletion can be completed.
    Complete(Identity),
    /// Whether it is to be deleted.
    Collect(Identity),
}

impl Examination {
    pub fn of(node: Option<&Node>) -> Self {
        match node {
            Some(node) if node.has_vanished() => Self::Nothing,
            Some(node) if node.waiting => Self::Complete(node.identity.clone()),
            Some(node) if !node.deleting => Self::Collect(node.identity.clone()),
            _ => Self::Nothing,
        }
    }
}

/// Whether an object that was just examined has to be examined again, though nothing has changed: no cache has shown it. It may have
/// been created and deleted while its resource was not watched, and then no event removes it from the graph.
pub fn is_unseen(node: Option<&Node>) -> bool {
    node.is_some_and(|node| !node.is_observed() && !node.has_vanished())
}

/// What follows for the key of an object that was examined.
#[derive(Debug)]
pub(super) enum Conclusion {
    /// Nothing, until something changes.
    Settled,
    /// It waits until a resource of this kind is known.
    AwaitKind(SmolStr, SmolStr),
    Retry(SyncError),
}

impl Conclusion {
    /// `is_unseen`: see [`is_unseen`].
    pub(super) fn of(item: &Item, done: Result<(), Problem>, is_unseen: bool) -> Self {
        match done {
            Ok(()) if is_unseen => {
                let doing = format!("waiting for a cache to show {item}");
                Self::Retry(SyncError::other(doing, "no informer has seen it yet").expected())
            }
            // Retrying does not help: the object itself has to change.
            Ok(()) | Err(Problem::NamespacedOwner) => Self::Settled,
            Err(Problem::UnknownKind(api_version, kind)) => Self::AwaitKind(api_version, kind),
            Err(problem) => Self::Retry(problem.into_error(item)),
        }
    }
}

/// Whether an object that was left as it is has to be examined again, because its owner references differ from those in the graph: if
/// they change back before the cache has shown the change, no event would cause another examination.
pub fn is_graph_behind(node: Option<&Node>, seen: &ObjectMeta) -> bool {
    !seen.is_deleting() && node.is_some_and(|node| *node.owners != *seen.owner_references)
}

/// The dependents that block the foreground deletion of an owner, and the examinations of those that are not being deleted yet.
pub fn blocking(graph: &Graph, owner: &Uid) -> (Vec<Identity>, Vec<Trigger>) {
    let blocking = || graph.blocking(owner);
    let undeleted = blocking().filter(|dependent| !dependent.deleting);
    let triggers = undeleted.map(|dependent| Trigger::Examine(dependent.identity.item())).collect();
    (blocking().map(|dependent| dependent.identity.clone()).collect(), triggers)
}

/// The standings of the owners of an object, as far as they are known.
///
/// All owners are read that no cache shows, since it must be certain that they are gone. Then those that a cache shows are read until one
/// keeps the object; the others count as solid: if one of them is gone, its deletion event causes another examination.
#[derive(Debug)]
pub struct OwnerChecks {
    /// Whether a cache shows the owner; by owner reference.
    living: Vec<bool>,
    standings: Vec<Standing>,
    unread: VecDeque<usize>,
    is_kept: bool,
}

impl OwnerChecks {
    pub fn new(living: Vec<bool>) -> Self {
        let standings = vec![Standing::Solid; living.len()];
        let mut unread: Vec<usize> = (0..living.len()).collect();
        unread.sort_by_key(|owner| living[*owner]);
        Self { living, standings, unread: unread.into(), is_kept: false }
    }

    /// The position of the owner reference to check next; `None` if enough is known.
    pub fn next_owner(&mut self) -> Option<usize> {
        // The living ones are the last.
        self.unread.pop_front().filter(|owner| !(self.is_kept && self.living[*owner]))
    }

    pub fn record(&mut self, owner: usize, standing: Standing) {
        self.standings[owner] = standing;
        self.is_kept |= standing == Standing::Solid;
    }

    /// One for each owner reference.
    pub fn standings(self) -> Vec<Standing> {
        self.standings
    }
}

/// The owner to read for a reference. `None` if its namespace is unknown: a cluster-scoped object refers to a namespaced owner.
pub fn owner_to_read(
    object: &Identity,
    reference: &OwnerReference,
    resource: &ResourceType,
) -> Option<Identity> {
    if resource.namespaced && object.namespace.is_empty() {
        return None;
    }
    let namespace = if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
    Some(Identity::claimed(reference, &namespace))
}

/// What the answer to a read of an owner says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerAnswer {
    Standing(Standing),
    /// It does not exist. That can be remembered, since no uid is used twice.
    Gone,
}

impl OwnerAnswer {
    /// `has_vanished`: a cache has seen its deletion.
    ///
    /// # Errors
    /// The answer says nothing about the owner.
    pub fn of(
        answer: Result<ObjectMeta, Error>,
        owner: &Identity,
        has_vanished: bool,
    ) -> Result<Self, Error> {
        match answer {
            Ok(meta) if meta.uid == owner.uid => Ok(Self::Standing(Standing::of(&meta))),
            // Another object has its name.
            Ok(_) => Ok(Self::Gone),
            Err(error) if is_object_missing(&error, &owner.name) => Ok(Self::Gone),
            // The server does not serve the kind any more.
            Err(error) if error.is_not_found() && has_vanished => Ok(Self::Standing(Standing::Absent)),
            Err(error) => Err(error),
        }
    }
}

/// The answer to the writes of a plan for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The object does not exist any more.
    Missing,
    /// It has changed since it was read.
    Conflict,
    /// The resource takes no strategic merge patches.
    Unsupported,
    /// An error that is not about the object.
    Failed,
}

impl Answer {
    /// The meaning of the first error, if there was one, for the object of this name.
    pub fn of(error: Option<&Error>, name: &str) -> Self {
        match error {
            None => Self::Done,
            Some(error) if error.is_conflict() => Self::Conflict,
            Some(error) if error.code() == Some(UNSUPPORTED_MEDIA_TYPE) => Self::Unsupported,
            Some(error) if is_object_missing(error, name) => Self::Missing,
            Some(_) => Self::Failed,
        }
    }
}

/// How many times a write is tried on an object that other clients change at the same time, before it is requeued.
pub const TRIES: u32 = 5;

/// The tries to write one object.
#[derive(Debug)]
pub struct Tries {
    left: u32,
    first: Style,
    style: Style,
    refused: Option<ObjectMeta>,
}

/// What to do after a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The object is written, or gone.
    End,
    /// The same again, with merge patches.
    WithMergePatches,
    /// Read the object, and plan again.
    ReadAgain,
    /// It has changed at each try.
    GiveUp,
}

impl Tries {
    /// This many tries, each with patches of the style `first` and then, if they are not supported, with merge patches.
    pub fn new(tries: u32, first: Style) -> Self {
        Self { left: tries, first, style: first, refused: None }
    }

    pub fn style(&self) -> Style {
        self.style
    }

    /// The object for which the last try was refused, if it had been read live.
    pub fn refused(&self) -> Option<&ObjectMeta> {
        self.refused.as_ref()
    }

    /// Records the answer to a try. `live` is the object that it was planned on, if it had been read from the server.
    pub fn record(&mut self, answer: Answer, live: Option<&ObjectMeta>) -> Step {
        match answer {
            Answer::Done | Answer::Missing => return Step::End,
            Answer::Unsupported if self.style == Style::Strategic => {
                self.style = Style::Merge;
                return Step::WithMergePatches;
            }
            Answer::Conflict | Answer::Unsupported | Answer::Failed => {}
        }
        self.refused = live.cloned();
        self.style = self.first;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Step::GiveUp } else { Step::ReadAgain }
    }
}
