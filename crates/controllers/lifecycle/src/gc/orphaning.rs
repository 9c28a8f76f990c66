//! The orphaning of an owner's dependents: the references to the owner go first, its finalizer last. Pure.

use flyball_api::Uid;
use flyball_common::discovery::Mark;
use rustc_hash::FxHashMap;

use super::graph::Graph;
use super::identity::{Identity, Item};
use super::server::Problem;

/// What to do for an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphaning {
    /// Nothing: it is gone, or its dependents are not to be orphaned any more.
    Nothing,
    /// A dependent whose resource is not watched yet would not be orphaned, and would be deleted later because its owner is gone.
    AwaitDiscovery,
    /// These dependents are released, and then the finalizer of the owner is removed.
    Release { owner: Identity, dependents: Vec<Identity> },
}

impl Orphaning {
    /// `is_followed`: whether all resources are watched that the server served when its orphaning began.
    pub fn of(graph: &Graph, owner: &Uid, is_followed: bool) -> Self {
        match graph.get(owner).filter(|node| node.orphaning) {
            None => Self::Nothing,
            Some(_) if !is_followed => Self::AwaitDiscovery,
            Some(node) => {
                let dependents = graph.dependents(owner).map(|dependent| dependent.identity.clone());
                Self::Release { owner: node.identity.clone(), dependents: dependents.collect() }
            }
        }
    }
}

/// The owners whose orphaning waits for a round of discovery, with the moment at which it began to wait: definitions that change
/// later do not prolong that.
#[derive(Debug, Default)]
pub struct Awaiting(FxHashMap<Item, Mark>);

impl Awaiting {
    /// Since when an owner waits, which is from now on if it does not yet.
    pub fn since(&mut self, owner: &Item, now: Mark) -> Mark {
        *self.0.entry(owner.clone()).or_insert(now)
    }

    pub fn end(&mut self, owner: &Item) {
        self.0.remove(owner);
    }

    /// All owners that wait, in order.
    pub fn owners(&self) -> Vec<Item> {
        let mut owners: Vec<Item> = self.0.keys().cloned().collect();
        owners.sort_unstable();
        owners
    }
}

/// Why the finalizer of the owner must stay: a dependent still refers to it. All were tried.
pub(super) fn obstacle(released: Vec<Result<(), Problem>>) -> Option<Problem> {
    released.into_iter().find_map(Result::err)
}
