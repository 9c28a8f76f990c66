//! Which node holds which blocks, and which nodes wait for some. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{Node, Uid};
use ipnet::IpNet;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::blocks::{Blocks, Span};
use super::settings::{Settings, parse};

#[derive(Debug)]
pub struct Pool {
    clusters: Vec<Blocks>,
    /// By the node's uid: a new node of the same name has its own.
    holdings: FxHashMap<Uid, Holding>,
    /// Nodes for which no block was free.
    waiting: BTreeSet<SmolStr>,
    /// Nodes whose podCIDRs do not fit the cluster CIDRs.
    invalid: BTreeMap<SmolStr, InvalidPodCidr>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The nodes are not all known, or another process may be allocating.
    Closed,
    /// Some nodes have invalid podCIDRs, so the flags are probably wrong.
    Blocked,
    Open,
}

/// The blocks of a node, each with the index of its cluster CIDR.
type Holding = Vec<(usize, Span)>;

/// The nodes for which blocks have become available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requeue {
    None,
    Nodes(Vec<SmolStr>),
    All,
}

/// The pod CIDRs that a node has or can get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// It has podCIDRs, and perhaps one of them is invalid.
    Assigned(Option<InvalidPodCidr>),
    /// One block of every cluster CIDR is reserved for it.
    Reserved(Vec<IpNet>),
    /// Allocation has not begun. All nodes are requeued when it does.
    Closed,
    /// No block of this cluster CIDR is free. The node is requeued when one is.
    Exhausted(IpNet),
}

/// Why a podCIDR of a node does not fit the cluster CIDRs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPodCidr {
    #[error("node {node}: invalid podCIDR {cidr:?}")]
    Unreadable { node: SmolStr, cidr: SmolStr },
    /// More podCIDRs than there are cluster CIDRs.
    #[error("node {node}: podCIDR {cidr} is number {number}, but --cluster-cidr has only {clusters}")]
    Surplus {
        node: SmolStr,
        cidr: SmolStr,
        /// Its position in the list, from one.
        number: usize,
        clusters: usize,
    },
    #[error("node {node}: podCIDR {cidr} is not in {cluster} of --cluster-cidr")]
    Elsewhere { node: SmolStr, cidr: SmolStr, cluster: IpNet },
}

impl Pool {
    /// All blocks, those of Service CIDRs being in use.
    pub fn new(settings: &Settings) -> Self {
        let mut clusters = settings.clusters.clone();
        for blocks in &mut clusters {
            for span in
                settings.services.iter().filter_map(|range| blocks.overlapping(range)).collect::<Vec<_>>()
            {
                blocks.occupy(&span);
            }
        }
        Self {
            clusters,
            holdings: FxHashMap::default(),
            waiting: BTreeSet::new(),
            invalid: BTreeMap::new(),
            state: State::Closed,
        }
    }

    pub fn clusters(&self) -> &[Blocks] {
        &self.clusters
    }

    /// The number of blocks that each search since the last call has skipped, by cluster CIDR.
    pub fn take_searches(&mut self) -> Vec<Vec<u64>> {
        self.clusters.iter_mut().map(Blocks::take_searches).collect()
    }

    /// Begins to allocate: all nodes are known, and no other process allocates.
    ///
    /// # Errors
    /// The nodes with invalid podCIDRs. Nothing is allocated before they are gone: most likely the flags are wrong.
    pub fn open(&mut self) -> Result<(), Vec<InvalidPodCidr>> {
        if self.invalid.is_empty() {
            self.state = State::Open;
            return Ok(());
        }
        self.state = State::Blocked;
        Err(self.invalid.values().cloned().collect())
    }

    /// Takes in a change of a node in the cache.
    pub fn update(&mut self, old: Option<&Node>, new: Option<&Node>) -> Requeue {
        let is_replaced = |old: &&Node| new.is_none_or(|new| new.metadata.uid != old.metadata.uid);
        if let Some(node) = old.filter(is_replaced) {
            self.forget(node);
        }
        if let Some(node) = new {
            self.record(node);
        }
        match self.state {
            State::Blocked if self.invalid.is_empty() => {
                self.state = State::Open;
                Requeue::All
            }
            State::Open if !self.waiting.is_empty() => self.servable(),
            _ => Requeue::None,
        }
    }

    /// Records the podCIDRs of a node. One that has none keeps what is reserved for it.
    fn record(&mut self, node: &Node) {
        if node.spec.pod_cidrs.is_empty() {
            return;
        }
        let name = &node.metadata.name;
        self.waiting.remove(name);
        let (holding, invalid) = self.holding_of(node);
        match invalid {
            Some(invalid) => self.invalid.insert(name.clone(), invalid),
            None => self.invalid.remove(name),
        };
        if self.holdings.get(&node.metadata.uid) == Some(&holding) {
            return;
        }
        // First the new, then the old: blocks in both are never free in between.
        holding.iter().for_each(|(cluster, span)| self.clusters[*cluster].occupy(span));
        let before = self.holdings.insert(node.metadata.uid.clone(), holding);
        self.vacate(before.unwrap_or_default());
    }

    fn forget(&mut self, node: &Node) {
        self.waiting.remove(&node.metadata.name);
        self.invalid.remove(&node.metadata.name);
        let holding = self.holdings.remove(&node.metadata.uid);
        self.vacate(holding.unwrap_or_default());
    }

    fn vacate(&mut self, holding: Holding) {
        for (cluster, span) in holding {
            if let Some(blocks) = self.clusters.get_mut(cluster) {
                blocks.vacate(&span);
            }
        }
    }

    /// All blocks that the podCIDRs of a node overlap, and the first podCIDR that is invalid.
    fn holding_of(&self, node: &Node) -> (Holding, Option<InvalidPodCidr>) {
        let (mut holding, mut invalid) = (vec![], None);
        for (index, text) in node.spec.pod_cidrs.iter().enumerate() {
            let Some(range) = parse(text) else {
                let (node, cidr) = (node.metadata.name.clone(), text.clone());
                invalid.get_or_insert(InvalidPodCidr::Unreadable { node, cidr });
                continue;
            };
            let clusters = self.clusters.iter().enumerate();
            holding.extend(clusters.filter_map(|(n, blocks)| Some((n, blocks.overlapping(&range)?))));
            let (node, cidr) = (node.metadata.name.clone(), text.clone());
            match self.clusters.get(index) {
                None => {
                    let (number, clusters) = (index + 1, self.clusters.len());
                    invalid.get_or_insert(InvalidPodCidr::Surplus { node, cidr, number, clusters });
                }
                Some(blocks) if !holding.iter().any(|(n, _)| *n == index) => {
                    invalid.get_or_insert(InvalidPodCidr::Elsewhere {
                        node,
                        cidr,
                        cluster: blocks.cluster(),
                    });
                }
                Some(_) => {}
            }
        }
        (holding, invalid)
    }

    /// As many of the waiting nodes as there are free blocks.
    fn servable(&mut self) -> Requeue {
        let free = self.clusters.iter().map(|blocks| blocks.total() - blocks.used()).min().unwrap_or(0);
        let served = usize::try_from(free).unwrap_or(usize::MAX).min(self.waiting.len());
        let names: Vec<SmolStr> = self.waiting.iter().take(served).cloned().collect();
        names.iter().for_each(|name| {
            self.waiting.remove(name);
        });
        if names.is_empty() { Requeue::None } else { Requeue::Nodes(names) }
    }

    /// What a node has. If it has nothing, one block of every cluster CIDR is reserved for it; calls that follow return the
    /// same ones. If one cannot be had, none is reserved, and the node waits.
    pub fn allocate(&mut self, node: &Node) -> Allocation {
        if !node.spec.pod_cidrs.is_empty() {
            return Allocation::Assigned(self.invalid.get(&node.metadata.name).cloned());
        }
        if self.state != State::Open {
            return Allocation::Closed;
        }
        if let Some(networks) = self.reserved(node) {
            return Allocation::Reserved(networks);
        }
        let mut holding: Holding = vec![];
        let mut networks = vec![];
        for n in 0..self.clusters.len() {
            let Some(block) = self.clusters[n].take() else {
                self.vacate(holding);
                self.waiting.insert(node.metadata.name.clone());
                return Allocation::Exhausted(self.clusters[n].cluster());
            };
            holding.push((n, block..=block));
            networks.push(self.clusters[n].network(block));
        }
        self.waiting.remove(&node.metadata.name);
        self.holdings.insert(node.metadata.uid.clone(), holding);
        Allocation::Reserved(networks)
    }

    /// What was reserved for a node by an earlier call. If a user has given it to another node since, it is released.
    fn reserved(&mut self, node: &Node) -> Option<Vec<IpNet>> {
        let holding = self.holdings.get(&node.metadata.uid)?;
        let blocks = || holding.iter().map(|(n, span)| (&self.clusters[*n], *span.start()));
        if blocks().any(|(cluster, block)| cluster.is_shared(block)) {
            let released = self.holdings.remove(&node.metadata.uid);
            self.vacate(released.unwrap_or_default());
            return None;
        }
        Some(blocks().map(|(cluster, block)| cluster.network(block)).collect())
    }
}
