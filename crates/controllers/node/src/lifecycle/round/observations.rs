//! The steps of a round, what each of them is decided on, and what their writes are for. Pure.

use std::sync::Arc;

use flyball_api::{Lease, Node, WithRaw};
use flyball_client::Error;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::super::health::{GracePeriods, Now};
use super::super::zone::Policy;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub grace: GracePeriods,
    pub policy: Policy,
    /// From how many suspect nodes on their leases are read from the server, too; 0 for never.
    pub verify: usize,
}

/// The input of a step.
pub struct Observations {
    pub settings: Settings,
    /// When the step began, before anything was read.
    pub started: Instant,
    pub now: Now,
    pub input: Input,
}

pub enum Input {
    /// For [`Step::Check`]: all nodes, sorted by name, with their leases.
    Cluster {
        nodes: Vec<(Arc<Node>, Option<Arc<Lease>>)>,
        /// The number of events, bookmarks and list pages that the informer of leases has received.
        lease_messages: u64,
        is_healthy: bool,
    },
    /// For [`Step::Confirm`]: the suspect nodes, read from the server.
    Live {
        nodes: Vec<LiveNode>,
        /// Whether the cache of leases shows everything from before this step.
        is_current: bool,
    },
    /// For [`Step::Respond`]: the cached nodes, after the writes of this round so far, and the nodes that are queued
    /// for a NoExecute taint.
    Cache { nodes: FxHashMap<SmolStr, Arc<Node>>, queued: FxHashSet<SmolStr> },
    /// For [`Step::MarkPods`]: the pods to mark as not ready.
    Pods(Vec<NodePods>),
}

/// The lease of a suspect node.
#[derive(Debug, Clone)]
pub enum LiveLease {
    /// As the cache has it, or, if many nodes are suspect and that is to be verified, as the server has it.
    Known(Option<Arc<Lease>>),
    /// It could not be read, so nobody knows whether the node is lost.
    Unreadable,
}

pub struct LiveNode {
    pub name: SmolStr,
    pub node: Result<WithRaw<Node>, Error>,
    pub lease: LiveLease,
    /// When it was read.
    pub now: Now,
}

pub struct NodePods {
    pub node: SmolStr,
    pub pods: Result<Vec<Value>, Error>,
}

/// What a write is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    /// Removes taints at the first check of this node.
    FirstCheck(SmolStr),
    /// Sets the conditions of this node to `Unknown`.
    Declare(SmolStr),
    Taint,
    /// Marks a pod of this node as not ready.
    MarkPod(SmolStr),
}

/// The step that comes next.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Step {
    #[default]
    Check,
    /// Read the suspect nodes from the server and declare them lost. `attempt` counts from 1.
    Confirm {
        attempt: usize,
    },
    Respond,
    MarkPods {
        batch: Vec<SmolStr>,
        rest: Vec<SmolStr>,
    },
}
