//! The watch over all nodes: one round in every period. The shell of health, zones and plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Lease, Node, Object, ResourceVersion, Uid};
use flyball_cache::{Informer, Progress};
use flyball_runtime::Chain;
use futures::{StreamExt, stream};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::health::{Graces, Health, Moment, Sign, observe};
use super::invariants;
use super::metrics::Numbers;
use super::plan::{Action, View, plan};
use super::sight::{Hearing, Sight};
use super::status::{Ready, lost, readiness};
use super::tainter::Tainter;
use super::taints::{is_evicted, no_execute, welcome};
use super::writes::Hands;
use super::zone::{Policy, Tally, counts, outlook, zone_of};

const LEASES: &str = "kube-node-lease";
/// Nodes that are looked after at once, when that takes requests.
const AT_ONCE: usize = 8;
/// How often a node's status is tried to be written in one round.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// How long a round waits for the cache to show what it wrote.
const PATIENCE: Duration = Duration::from_secs(2);
/// A period of nothing would leave no time for anything else.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub(super) struct Monitor {
    pub(super) hands: Arc<Hands>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) leases: Arc<Informer<Lease>>,
    pub(super) tainter: Arc<Tainter>,
    pub(super) policy: Policy,
    pub(super) graces: Graces,
    pub(super) period: Duration,
    pub(super) numbers: Numbers,
    pub(super) memory: Memory,
}

/// What is remembered from round to round.
#[derive(Default)]
pub(super) struct Memory {
    /// Nodes that users were told of.
    known: BTreeMap<SmolStr, Uid>,
    health: FxHashMap<SmolStr, Health>,
    /// Nodes whose pods are still to be marked.
    owed: FxHashSet<SmolStr>,
    dark: bool,
    blind: bool,
    hearing: Hearing,
    last_round: Option<Instant>,
}

/// What a look at a node has shown.
struct Finding {
    node: Arc<Node>,
    zone: SmolStr,
    health: Health,
    observed: Ready,
    current: Option<Ready>,
    first_look: bool,
    /// Whether what we think of it is on record. If not, nothing follows, neither for its pods nor for its zone.
    settled: bool,
    /// Whether we may have given it up without hearing of it: then its pods are to be marked whatever is read.
    unsure: bool,
    /// The last version that we have written, if any.
    written: Option<ResourceVersion>,
    took: Duration,
}

impl Monitor {
    pub(super) async fn run(mut self) {
        loop {
            let started = Instant::now();
            self.round().await;
            self.numbers.all_nodes.observe(started.elapsed().as_secs_f64());
            tokio::time::sleep(self.period.max(SHORTEST_PERIOD)).await;
        }
    }

    async fn round(&mut self) {
        let mut nodes = self.nodes.store().list();
        nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        self.roll_call(&nodes);
        let sighted = self.open_eyes();
        let looks = stream::iter(nodes.clone()).map(|node| self.look(node, sighted));
        let mut findings: Vec<Finding> = looks.buffered(AT_ONCE).collect().await;
        for finding in &findings {
            let name = &finding.node.metadata.name;
            self.memory.health.insert(name.clone(), finding.health.clone());
            if finding.unsure {
                self.memory.owed.insert(name.clone());
            }
        }
        findings.retain(|finding| finding.settled);
        self.catch_up(&findings).await;
        self.judge_zones(&nodes, &findings);
        self.follow_up(findings).await;
    }

    /// Says whether signs of life reach us. While they do not, no node is to blame for its silence.
    ///
    /// Upstream: gives up every node after an outage of the API server that was longer than the grace period.
    fn open_eyes(&mut self) -> bool {
        let now = Instant::now();
        let since = self.memory.last_round.replace(now).unwrap_or(now);
        let counts = self.leases.counts();
        self.memory.hearing.listen(counts.events + counts.bookmarks + counts.pages, now);
        let is_healthy = self.leases.health().is_healthy() && self.nodes.health().is_healthy();
        let sight = self.memory.hearing.sight(is_healthy, self.graces.monitor, now);
        if sight != Sight::Clear && is_healthy {
            // Where leases are hardly ever renewed, this shows that the server is there; else that it is not.
            self.leases.refresh();
        }
        let sighted = sight != Sight::Blind;
        if std::mem::replace(&mut self.memory.blind, !sighted) != self.memory.blind {
            tracing::info!(
                sighted,
                "whether leases and nodes can be watched has changed; no node is given up unseen"
            );
        }
        if !sighted {
            self.memory.health.values_mut().for_each(|health| health.excuse(now.duration_since(since)));
        }
        sighted
    }

    /// Tells of nodes that have come and gone.
    fn roll_call(&mut self, nodes: &[Arc<Node>]) {
        for node in nodes {
            let (name, uid) = (&node.metadata.name, node.uid());
            if !self.memory.known.contains_key(name) {
                let message = format!("Node {name} event: Registered Node {name} in Controller");
                self.hands.tell(name, uid, "RegisteredNode", message);
                self.memory.known.insert(name.clone(), uid.clone());
            }
        }
        if self.memory.known.len() == nodes.len() {
            return;
        }
        let there: FxHashSet<&SmolStr> = nodes.iter().map(|node| &node.metadata.name).collect();
        let Memory { known, health, owed, .. } = &mut self.memory;
        known.retain(|name, uid| {
            let stays = there.contains(name);
            if !stays {
                let message = format!("Node {name} event: Removing Node {name} from Controller");
                self.hands.tell(name, uid, "RemovingNode", message);
                self.tainter.leave(name);
            }
            stays
        });
        health.retain(|name, _| there.contains(name));
        owed.retain(|name| there.contains(name));
    }

    /// Looks at one node, and says that it is lost if it is.
    async fn look(&self, node: Arc<Node>, sighted: bool) -> Finding {
        let started = Instant::now();
        let before = self.memory.health.get(&node.metadata.name);
        let mut written = None;
        if before.is_none() && is_evicted(&node) {
            // What an earlier controller manager knew of the node we cannot know: its pods get their time anew.
            written = self.lift_taints(&node, "it is looked at for the first time").await;
        }
        let now = self.moment();
        let lease = self.leases.store().get(&Key::new(LEASES, node.metadata.name.clone()));
        let health = observe(before, &node, lease.as_deref(), now);
        let mut finding = Finding {
            zone: zone_of(&node),
            observed: readiness(&node).unwrap_or(Ready::Unknown),
            current: readiness(&node),
            first_look: before.is_none(),
            settled: true,
            unsure: false,
            written,
            took: Duration::ZERO,
            health,
            node,
        };
        let is_silent = sighted && finding.health.is_silent(&finding.node, self.graces, now);
        let is_lost = is_silent && lost(&finding.node, now.wall).is_some();
        if is_lost {
            finding.settled = self.declare_lost(&mut finding, lease.as_deref()).await;
        }
        finding.took = started.elapsed();
        finding
    }

    /// Writes that a node is lost, unless the server knows better by now. Says whether that is settled.
    async fn declare_lost(&self, finding: &mut Finding, lease: Option<&Lease>) -> bool {
        let key = finding.node.key();
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
            let node = match self.hands.live_node(&key).await {
                Ok(node) => node,
                Err(error) if error.is_not_found() => return false,
                Err(error) => {
                    tracing::warn!(node = %key, error = %Chain(&error), "cannot read a silent node; trying again");
                    continue;
                }
            };
            let now = self.moment();
            finding.health = observe(Some(&finding.health), &node, lease, now);
            finding.current = readiness(&node);
            if !(finding.unsure && finding.current == Some(Ready::Unknown)) {
                finding.observed = finding.current.unwrap_or(Ready::Unknown);
            }
            let conditions = lost(&node, now.wall);
            let is_silent = finding.health.is_silent(&node, self.graces, now);
            let Some(conditions) = conditions.filter(|_| is_silent) else { return true };
            let why = format!("nothing was heard of it for {} s", finding.health.silence(now).as_secs());
            match self.hands.put_conditions(&node, &conditions, why).await {
                Ok(version) => {
                    finding.current = Some(Ready::Unknown);
                    finding.written = Some(version);
                    return true;
                }
                Err(error) => {
                    finding.unsure |= error.outcome_unknown();
                    tracing::debug!(node = %key, error = %Chain(&error), "cannot say that a node is lost; trying again");
                }
            }
        }
        tracing::warn!(node = %key, "cannot say that a node is lost; nothing follows from it in this round");
        false
    }

    /// Waits until the cache shows what the round has written so far, so that whoever looks at a node next sees it.
    async fn catch_up(&self, findings: &[Finding]) {
        if let Some(version) = findings.iter().filter_map(|finding| finding.written).max() {
            // If it takes longer, the next round makes up for it.
            let _ = tokio::time::timeout(PATIENCE, self.nodes.reached(version)).await;
        }
    }

    /// Sets how fast the nodes of each zone may be tainted.
    fn judge_zones(&mut self, nodes: &[Arc<Node>], findings: &[Finding]) {
        let mut tallies: BTreeMap<SmolStr, Tally> =
            nodes.iter().map(|node| (zone_of(node), Tally::default())).collect();
        for finding in findings.iter().filter(|finding| counts(&finding.node)) {
            let tally = tallies.entry(finding.zone.clone()).or_default();
            match finding.current {
                Some(Ready::True) => tally.ready += 1,
                _ => tally.unready += 1,
            }
        }
        let outlook = outlook(&tallies, &self.policy);
        if outlook.dark != self.memory.dark {
            match outlook.dark {
                true => tracing::warn!("no node is ready any more; nobody is evicted until one is"),
                false => {
                    tracing::info!("some nodes are ready again; evictions go on");
                    // We may have been cut off from all of them: they get their time anew.
                    let now = Sign::Seen(Instant::now());
                    self.memory.health.values_mut().for_each(|health| health.sign = now);
                }
            }
            self.memory.dark = outlook.dark;
        }
        self.tainter.set_rates(&outlook.rates);
        self.numbers.zones(&tallies);
    }

    /// Does what follows for each node; first for all of them what takes no request, so that no taint waits for
    /// the pods of other nodes to be marked.
    async fn follow_up(&mut self, findings: Vec<Finding>) {
        let dark = self.memory.dark;
        let mut work: Vec<(Arc<Node>, Vec<Action>, Duration)> = vec![];
        for finding in findings {
            let name = &finding.node.metadata.name;
            let node = self.nodes.store().get(&finding.node.key()).unwrap_or(finding.node.clone());
            // Whether an earlier controller manager came to mark the pods of a node that it gave up is not known.
            let inherited = finding.first_look && finding.observed == Ready::Unknown;
            let view = View {
                node: &node,
                observed: finding.observed,
                current: finding.current,
                owed: inherited || self.memory.owed.contains(name),
                waits: self.tainter.waits(name),
                dark,
            };
            let mut actions = plan(&view);
            self.hands.cx.judge(|| invariants::check(&view, &actions));
            if !actions.contains(&Action::MarkPods) {
                self.memory.owed.remove(name);
            }
            actions.retain(|action| !self.execute_at_once(&node, &finding.zone, *action));
            match actions.is_empty() {
                true => self.numbers.one_node.observe(finding.took.as_secs_f64()),
                false => work.push((node, actions, finding.took)),
            }
        }
        let this = &*self;
        let done: Vec<(SmolStr, bool)> = stream::iter(work)
            .map(|(node, actions, took)| async move {
                let started = Instant::now();
                let marked = this.execute(&node, &actions).await;
                this.numbers.one_node.observe((took + started.elapsed()).as_secs_f64());
                (node.metadata.name.clone(), marked)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        for (name, marked) in done {
            match marked {
                true => self.memory.owed.remove(&name),
                false => self.memory.owed.insert(name),
            };
        }
    }

    /// Carries out an action that takes no request; says whether it was one.
    fn execute_at_once(&self, node: &Node, zone: &SmolStr, action: Action) -> bool {
        let name = &node.metadata.name;
        match action {
            Action::AwaitTaint => self.tainter.enter(zone, name),
            Action::Tell => {
                let message = format!("Node {name} status is now: NodeNotReady");
                self.hands.tell(name, node.uid(), "NodeNotReady", message);
            }
            Action::Welcome | Action::SwapTaint | Action::MarkPods => return false,
        }
        true
    }

    /// Carries out the other actions for one node; says whether its pods are as they should be.
    async fn execute(&self, node: &Node, actions: &[Action]) -> bool {
        let name = &node.metadata.name;
        let mut marked = true;
        for action in actions {
            match action {
                Action::Welcome => {
                    self.tainter.leave(name);
                    let why = if self.memory.dark {
                        "no node is ready, so nobody is evicted"
                    } else {
                        "it is ready"
                    };
                    self.lift_taints(node, why).await;
                }
                Action::SwapTaint => {
                    let why = "it fares differently, and its pods are being evicted already";
                    if let Err(error) = self.hands.swap_taints_now(node, no_execute, why).await {
                        tracing::warn!(node = %name, error = %Chain(&error), "cannot swap taints; trying again");
                    }
                }
                Action::MarkPods => marked = self.hands.mark_pods(name).await,
                Action::AwaitTaint | Action::Tell => {}
            }
        }
        marked
    }

    async fn lift_taints(&self, node: &Node, why: &'static str) -> Option<ResourceVersion> {
        match self.hands.swap_taints_now(node, welcome, why).await {
            Ok(written) => written,
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                let (node, error) = (&node.metadata.name, Chain(&error));
                tracing::warn!(%node, %error, "cannot lift taints; trying again");
                None
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment { wall: self.hands.now(), ticks: Instant::now() }
    }
}
