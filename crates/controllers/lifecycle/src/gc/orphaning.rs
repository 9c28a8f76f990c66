//! The orphaning of an owner's dependents: the references to the owner go first, its finalizer last. Pure.

use flyball_api::Uid;

use super::graph::Graph;
use super::identity::Identity;
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
    /// `is_followed`: whether all resources are watched that the server serves.
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

/// Why the finalizer of the owner must stay: a dependent still refers to it. All were tried.
pub(super) fn obstacle(released: Vec<Result<(), Problem>>) -> Option<Problem> {
    released.into_iter().find_map(Result::err)
}
