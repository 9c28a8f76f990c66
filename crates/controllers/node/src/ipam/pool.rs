//! The books: which node holds which blocks, and who waits for some. Pure.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{Node, Uid};
use ipnet::IpNet;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::blocks::{Blocks, Span};
use super::settings::{Settings, parse};

/// All blocks, who holds them and who waits for them.
#[derive(Debug)]
pub struct Pool {
    clusters: Vec<Blocks>,
    /// By the node's uid: another node of the same name has its own.
    holdings: FxHashMap<Uid, Holding>,
    /// Nodes that found nothing free.
    waiting: BTreeSet<SmolStr>,
    /// Nodes whose ranges do not fit the cluster's, and why.
    misfits: BTreeMap<SmolStr, Misfit>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Another process may be giving blocks away.
    Closed,
    /// Some nodes do not fit, so the flags are probably wrong.
    Refusing,
    Open,
}

/// What a node holds: each with the number of the cluster range it is in.
type Holding = Vec<(usize, Span)>;

/// Who can be served now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// Nobody who was not before.
    Nobody,
    These(Vec<SmolStr>),
    Everybody,
}

/// Why a node cannot be given blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The books are closed. All nodes are brought back when they are opened.
    Closed,
    /// This cluster range is used up.
    Exhausted(IpNet),
}

/// Why the range of a node does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error("node {node} has the pod range {range:?}, which is none")]
    Unreadable { node: SmolStr, range: SmolStr },
    /// More ranges than the cluster has.
    #[error(
        "node {node} has the pod range {range}, its number {number}, but --cluster-cidr has only {clusters}"
    )]
    Surplus {
        node: SmolStr,
        range: SmolStr,
        /// Where in its list, from one.
        number: usize,
        clusters: usize,
    },
    /// Not in the cluster's range.
    #[error("node {node} has the pod range {range}, which is not in {cluster} of --cluster-cidr")]
    Elsewhere { node: SmolStr, range: SmolStr, cluster: IpNet },
}

impl Pool {
    /// All blocks but those of Services.
    pub fn new(settings: &Settings) -> Self {
        let mut clusters = settings.clusters.clone();
        for blocks in &mut clusters {
            for span in settings.services.iter().filter_map(|range| blocks.touched(range)).collect::<Vec<_>>()
            {
                blocks.occupy(&span);
            }
        }
        Self {
            clusters,
            holdings: FxHashMap::default(),
            waiting: BTreeSet::new(),
            misfits: BTreeMap::new(),
            state: State::Closed,
        }
    }

    pub fn clusters(&self) -> &[Blocks] {
        &self.clusters
    }

    /// What is wrong with the ranges of a node, if anything.
    pub fn misfit(&self, node: &str) -> Option<&Misfit> {
        self.misfits.get(node)
    }

    /// Begins to give blocks away: the nodes are known, and nobody else does.
    ///
    /// # Errors
    /// The nodes that do not fit. Nothing is given away before they are gone: most likely the flags are wrong.
    pub fn open(&mut self) -> Result<(), Vec<Misfit>> {
        if self.misfits.is_empty() {
            self.state = State::Open;
            return Ok(());
        }
        self.state = State::Refusing;
        Err(self.misfits.values().cloned().collect())
    }

    /// Follows a change of a node in the cache.
    pub fn follow(&mut self, old: Option<&Node>, new: Option<&Node>) -> Wake {
        let is_replaced = |old: &&Node| new.is_none_or(|new| new.metadata.uid != old.metadata.uid);
        if let Some(node) = old.filter(is_replaced) {
            self.forget(node);
        }
        if let Some(node) = new {
            self.note(node);
        }
        match self.state {
            State::Refusing if self.misfits.is_empty() => {
                self.state = State::Open;
                Wake::Everybody
            }
            State::Open if !self.waiting.is_empty() => self.next_in_line(),
            _ => Wake::Nobody,
        }
    }

    /// Enters what a node has. One that has nothing keeps what is set aside for it.
    fn note(&mut self, node: &Node) {
        if node.spec.pod_cidrs.is_empty() {
            return;
        }
        let name = &node.metadata.name;
        self.waiting.remove(name);
        let (holding, misfit) = self.holding_of(node);
        match misfit {
            Some(misfit) => self.misfits.insert(name.clone(), misfit),
            None => self.misfits.remove(name),
        };
        if self.holdings.get(&node.metadata.uid) == Some(&holding) {
            return;
        }
        // First the new, then the old: what is in both is never free in between.
        holding.iter().for_each(|(cluster, span)| self.clusters[*cluster].occupy(span));
        let before = self.holdings.insert(node.metadata.uid.clone(), holding);
        self.vacate(before.unwrap_or_default());
    }

    fn forget(&mut self, node: &Node) {
        self.waiting.remove(&node.metadata.name);
        self.misfits.remove(&node.metadata.name);
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

    /// All blocks that the ranges of a node have addresses in, wherever they are, and the first range that is not
    /// where it should be.
    fn holding_of(&self, node: &Node) -> (Holding, Option<Misfit>) {
        let (mut holding, mut misfit) = (vec![], None);
        for (index, text) in node.spec.pod_cidrs.iter().enumerate() {
            let Some(range) = parse(text) else {
                let (node, range) = (node.metadata.name.clone(), text.clone());
                misfit.get_or_insert(Misfit::Unreadable { node, range });
                continue;
            };
            let touched = self.clusters.iter().enumerate();
            holding.extend(touched.filter_map(|(n, blocks)| Some((n, blocks.touched(&range)?))));
            let (node, range) = (node.metadata.name.clone(), text.clone());
            match self.clusters.get(index) {
                None => {
                    let (number, clusters) = (index + 1, self.clusters.len());
                    misfit.get_or_insert(Misfit::Surplus { node, range, number, clusters });
                }
                Some(blocks) if !holding.iter().any(|(n, _)| *n == index) => {
                    misfit.get_or_insert(Misfit::Elsewhere { node, range, cluster: blocks.cluster() });
                }
                Some(_) => {}
            }
        }
        (holding, misfit)
    }

    /// As many of those who wait as there is something for.
    fn next_in_line(&mut self) -> Wake {
        let free = self.clusters.iter().map(|blocks| blocks.total() - blocks.used()).min().unwrap_or(0);
        let served = usize::try_from(free).unwrap_or(usize::MAX).min(self.waiting.len());
        let names: Vec<SmolStr> = self.waiting.iter().take(served).cloned().collect();
        names.iter().for_each(|name| {
            self.waiting.remove(name);
        });
        if names.is_empty() { Wake::Nobody } else { Wake::These(names) }
    }

    /// Sets one block of every cluster range aside for a node, or says again which these are. `passed_over` is told
    /// how many held blocks of a range were passed over.
    ///
    /// # Errors
    /// Why there is nothing for it. It then waits, and nothing is set aside.
    pub fn reserve(
        &mut self,
        node: &Node,
        mut passed_over: impl FnMut(&Blocks, u64),
    ) -> Result<Vec<IpNet>, Refusal> {
        if self.state != State::Open {
            return Err(Refusal::Closed);
        }
        if let Some(networks) = self.set_aside(node) {
            return Ok(networks);
        }
        let mut holding: Holding = vec![];
        let mut networks = vec![];
        for n in 0..self.clusters.len() {
            let Some(taken) = self.clusters[n].take() else {
                self.vacate(holding);
                self.waiting.insert(node.metadata.name.clone());
                return Err(Refusal::Exhausted(self.clusters[n].cluster()));
            };
            passed_over(&self.clusters[n], taken.tries);
            holding.push((n, taken.block..=taken.block));
            networks.push(self.clusters[n].network(taken.block));
        }
        self.waiting.remove(&node.metadata.name);
        self.holdings.insert(node.metadata.uid.clone(), holding);
        Ok(networks)
    }

    /// What is set aside for a node since an earlier try. If somebody has given it to another node meanwhile, it is
    /// not set aside any longer.
    fn set_aside(&mut self, node: &Node) -> Option<Vec<IpNet>> {
        let holding = self.holdings.get(&node.metadata.uid)?;
        let blocks = || holding.iter().map(|(n, span)| (&self.clusters[*n], *span.start()));
        if blocks().any(|(cluster, block)| cluster.is_shared(block)) {
            let given_up = self.holdings.remove(&node.metadata.uid);
            self.vacate(given_up.unwrap_or_default());
            return None;
        }
        Some(blocks().map(|(cluster, block)| cluster.network(block)).collect())
    }
}
