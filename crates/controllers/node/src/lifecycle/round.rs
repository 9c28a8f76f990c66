//! One round of health checks over all nodes, in four steps: check all nodes in the cache; read the nodes that seem
//! lost from the server and declare them lost (set their conditions to `Unknown`); set or clear taints, depending on
//! the state of the zones; mark pods as not ready. Each step is a pure function from `Memory` and `Observations` to the
//! new memory and a plan. The monitor runs the steps one after the other.

mod observations;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Lease, Node, Object, ResourceVersion, Uid};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::{Effect, ErrorKinds, Event, Outcome, Plan, Write};
use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::health::{GracePeriods, Health, LastSign, Now, observe};
use super::lease_watch::{LeaseWatch, Trust};
use super::plan::mark_live;
use super::response::{Response, View, about, respond};
use super::status::{Ready, readiness, unknown_conditions, with_conditions};
use super::taints::{self, clear_no_execute, has_no_execute};
use super::zone::{Policy, Tally, assess, is_counted, zone_of};

pub use self::observations::{Input, LiveLease, LiveNode, NodePods, Observations, Settings, Step, Tag};

/// How many times one round tries to declare a node lost.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// For how many nodes one step marks the pods. All pods of these nodes are in memory during the step.
const NODES_PER_STEP: usize = 8;

/// What is remembered from step to step and from round to round.
#[derive(Default)]
pub struct Memory {
    /// Nodes with a `RegisteredNode` event.
    registered: BTreeMap<SmolStr, Uid>,
    health: FxHashMap<SmolStr, Health>,
    /// Nodes whose pods still have to be marked as not ready.
    unmarked: FxHashSet<SmolStr>,
    /// Nodes that were declared lost, or had not reported yet, when they were checked last.
    lost: FxHashSet<SmolStr>,
    no_node_ready: bool,
    is_suspended: bool,
    /// Whether a round had to wait since the last check.
    was_held: bool,
    lease_watch: LeaseWatch,
    last_check: Option<Instant>,
    step: Step,
    /// Sorted by node name, for `position`.
    checks: Vec<Check>,
    /// Nodes whose pods are to be marked in this round.
    to_mark: Vec<SmolStr>,
    /// The highest resourceVersion of a node that this round has written.
    written: Option<ResourceVersion>,
    round_started: Option<Instant>,
    step_started: Option<Instant>,
    report: Report,
}

/// The state of a node in this round.
struct Check {
    node: Arc<Node>,
    zone: SmolStr,
    before: Ready,
    after: Option<Ready>,
    state: State,
    /// Whether an earlier attempt in this round to declare it lost got no response: that write may have been made.
    is_declare_unanswered: bool,
    /// Whether the current step makes requests for it.
    is_busy: bool,
    took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Settled,
    /// According to the cache, it has not reported for longer than its grace period.
    Suspect,
    /// It could not be declared lost. The rest of this round ignores it: it is not counted in its zone, and its taints
    /// and pods are not changed.
    Unsettled,
}

/// What a step has decided besides writes.
#[derive(Default)]
pub struct Report {
    pub refresh_leases: bool,
    /// Whether checks are suspended, if that has changed.
    pub is_suspended: Option<bool>,
    pub removed_nodes: Vec<SmolStr>,
    /// Whether no node is ready, if that has changed.
    pub no_node_ready: Option<bool>,
    /// How many nodes of each zone are ready, and how fast they may be tainted.
    pub zones: Option<(BTreeMap<SmolStr, Tally>, BTreeMap<SmolStr, f32>)>,
    /// For each node its zone, the input of the decision, and the response.
    pub responses: Vec<(SmolStr, View, Response)>,
    /// Set at the end of a round.
    durations: Option<Durations>,
}

/// How long a round took.
pub struct Durations {
    pub nodes: Vec<Duration>,
    pub all: Duration,
}

impl Memory {
    pub fn step(&self) -> &Step {
        &self.step
    }

    pub fn suspects(&self) -> Vec<SmolStr> {
        let suspects = self.checks.iter().filter(|check| check.state == State::Suspect);
        suspects.map(|check| check.node.metadata.name.clone()).collect()
    }

    pub fn written(&self) -> Option<ResourceVersion> {
        self.written
    }

    pub fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// How long the round took, if it has ended.
    pub fn take_durations(&mut self) -> Option<Durations> {
        self.report.durations.take()
    }

    /// A restore of etcd may have undone writes of earlier rounds: the round begins again, and the pods of lost nodes are marked
    /// again where they claim to be ready.
    pub fn restored(&mut self) {
        (self.step, self.written) = (Step::Check, None);
        self.checks.clear();
        self.to_mark.clear();
        self.lost.clear();
    }

    /// A cache had lost its watch, and rounds had to wait for it: renewals since the last check may not have been seen. Nodes that
    /// seemed lost before are checked again.
    pub fn held(&mut self) {
        self.was_held = true;
        if matches!(self.step, Step::Confirm { .. }) {
            self.step = Step::Check;
            self.checks.clear();
        }
    }

    /// Runs the next step: returns the new memory and the plan.
    pub fn round(mut self, observations: &Observations) -> (Self, Plan<Tag>) {
        let Observations { settings, started, now, input } = observations;
        self.step_started = Some(*started);
        let plan = match input {
            Input::Cluster { nodes, lease_messages, is_healthy } => {
                (self.round_started, self.written) = (Some(*started), None);
                let events = self.register(nodes);
                self.suspend(*lease_messages, *is_healthy, settings.grace.monitor, now.monotonic);
                plan_of(events, self.check(nodes, settings.grace, *now))
            }
            // The watch lags behind, or this process was stopped for a while: what nodes have sent since is not seen yet.
            Input::Live { is_current: false, .. } => {
                self.give_up_suspects();
                Plan::default()
            }
            Input::Live { nodes, is_current: true } => {
                let writes = nodes.iter().filter_map(|live| self.confirm(live, settings.grace)).collect();
                plan_of(vec![], writes)
            }
            Input::Cache { nodes, queued } => {
                self.assess(&settings.policy, now.monotonic);
                self.respond(nodes, queued, *now)
            }
            Input::Pods(nodes) => Plan::of([Effect::concurrent(
                nodes.iter().filter_map(|listed| self.mark_pods(listed, *now)).collect::<Vec<_>>(),
            )]),
        };
        (self, plan)
    }

    /// Removes deleted nodes from the memory. Returns the events for new and for deleted nodes.
    fn register(&mut self, nodes: &[(Arc<Node>, Option<Arc<Lease>>)]) -> Vec<Event> {
        let mut events = vec![];
        for (node, _) in nodes {
            let name = &node.metadata.name;
            if !self.registered.contains_key(name) {
                let message = format!("Node {name} event: Registered Node {name} in Controller");
                events.push(about(node, Event::normal("RegisteredNode", message)));
                self.registered.insert(name.clone(), node.uid().clone());
            }
        }
        if self.registered.len() == nodes.len() {
            return events;
        }
        let present: FxHashSet<&SmolStr> = nodes.iter().map(|(node, _)| &node.metadata.name).collect();
        self.registered.retain(|name, uid| {
            let is_present = present.contains(name);
            if !is_present {
                let message = format!("Node {name} event: Removing Node {name} from Controller");
                let object = ObjectRef::named::<Node>("", name, uid);
                events.push(Event::normal("RemovingNode", message).about(object));
                self.report.removed_nodes.push(name.clone());
            }
            is_present
        });
        self.health.retain(|name, _| present.contains(name));
        self.unmarked.retain(|name| present.contains(name));
        self.lost.retain(|name| present.contains(name));
        events
    }

    /// Suspends the checks while the informer may be missing lease renewals. That time does not count towards the grace
    /// periods.
    ///
    /// This differs from upstream, which declares every node lost after an outage of the API server that is longer than the
    /// grace period.
    fn suspend(&mut self, messages: u64, is_healthy: bool, grace: Duration, now: Instant) {
        let since = self.last_check.replace(now).unwrap_or(now);
        self.lease_watch.record(messages, now);
        let trust = self.lease_watch.trust(is_healthy, grace, now);
        // If leases are renewed rarely, a silent watch is no sign of a failure: a relist shows whether the server
        // responds.
        self.report.refresh_leases = trust != Trust::Full && is_healthy;
        let is_suspended = trust == Trust::None;
        if std::mem::replace(&mut self.is_suspended, is_suspended) != is_suspended {
            self.report.is_suspended = Some(is_suspended);
        }
        if std::mem::take(&mut self.was_held) || is_suspended {
            self.health.values_mut().for_each(|health| health.discount(now.duration_since(since)));
        }
    }

    /// Checks all nodes, using only the cache.
    fn check(
        &mut self,
        nodes: &[(Arc<Node>, Option<Arc<Lease>>)],
        grace: GracePeriods,
        now: Now,
    ) -> Vec<Write<Tag>> {
        let mut writes = vec![];
        self.checks.clear();
        for (node, lease) in nodes {
            let name = &node.metadata.name;
            let known = self.health.get(name);
            let is_first = known.is_none();
            let health = observe(known, node, lease.as_deref(), now);
            let is_silent = !self.is_suspended && health.is_silent(node, grace, now);
            self.health.insert(name.clone(), health);
            // This process does not know for how long the node has been silent. So it removes NoExecute taints that an
            // earlier process has set, and the pods get their full toleration time again.
            let why = "first check of the node by this process";
            let clears = is_first && has_no_execute(node);
            let write = clears.then(|| taints::write(node, clear_no_execute, why, now.wall)).flatten();
            let after = readiness(node);
            let is_suspect = is_silent && after != Some(Ready::Unknown);
            self.checks.push(Check {
                node: node.clone(),
                zone: zone_of(node),
                before: after.unwrap_or(Ready::Unknown),
                after,
                state: if is_suspect { State::Suspect } else { State::Settled },
                is_declare_unanswered: false,
                is_busy: write.is_some(),
                took: Duration::ZERO,
            });
            writes.extend(write.map(|write| write.tag(Tag::FirstCheck(name.clone()))));
        }
        writes
    }

    /// Declares a suspect node lost, unless the server shows that it has reported since.
    fn confirm(&mut self, live: &LiveNode, grace: GracePeriods) -> Option<Write<Tag>> {
        let LiveNode { name, node, lease, now } = live;
        let at = self.position(name)?;
        let check = &mut self.checks[at];
        check.is_busy = true;
        let node = match node {
            Ok(node) => node,
            Err(error) => {
                if error.is_not_found() {
                    check.state = State::Unsettled;
                }
                return None;
            }
        };
        let lease = match lease {
            LiveLease::Known(lease) => lease.as_deref(),
            // As if the node could not be read.
            LiveLease::Unreadable => return None,
        };
        let health = observe(self.health.get(name), node, lease, *now);
        let (is_silent, silence) = (health.is_silent(node, grace, *now), health.silent_for(*now));
        self.health.insert(name.clone(), health);
        check.after = readiness(node);
        if !(check.is_declare_unanswered && check.after == Some(Ready::Unknown)) {
            check.before = check.after.unwrap_or(Ready::Unknown);
        }
        let Some(conditions) = unknown_conditions(node, now.wall).filter(|_| is_silent) else {
            check.state = State::Settled;
            return None;
        };
        let body = with_conditions(node.raw().to_value(), &conditions);
        let write = Write::status_of::<Node>(check.node.key(), body).ignore_only(ErrorKinds::NONE);
        let why = format_smolstr!("the node has not reported for {} s", silence.as_secs());
        Some(write.why(why).tag(Tag::Declare(name.clone())))
    }

    /// Decides how fast the nodes of each zone may be tainted.
    fn assess(&mut self, policy: &Policy, now: Instant) {
        let mut tallies: BTreeMap<SmolStr, Tally> = BTreeMap::new();
        for check in &self.checks {
            let tally = tallies.entry(check.zone.clone()).or_default();
            match check.after {
                _ if check.state != State::Settled || !is_counted(&check.node) => {}
                Some(Ready::True) => tally.ready += 1,
                _ => tally.unready += 1,
            }
        }
        let assessment = assess(&tallies, policy);
        if assessment.no_node_ready != self.no_node_ready {
            self.no_node_ready = assessment.no_node_ready;
            self.report.no_node_ready = Some(self.no_node_ready);
            if !self.no_node_ready {
                // The control plane may have been cut off from all nodes: their grace periods begin again.
                let sign = LastSign::Renewed(now);
                self.health.values_mut().for_each(|health| health.last_sign = sign);
            }
        }
        self.report.zones = Some((tallies, assessment.rates));
    }

    fn respond(
        &mut self,
        nodes: &FxHashMap<SmolStr, Arc<Node>>,
        queued: &FxHashSet<SmolStr>,
        now: Now,
    ) -> Plan<Tag> {
        let (mut events, mut writes) = (vec![], vec![]);
        for check in self.checks.iter_mut().filter(|check| check.state == State::Settled) {
            let name = &check.node.metadata.name;
            // The node was declared lost before: by an earlier process, or by an earlier run of this controller whose last writes
            // the cache shows only now. It is not recorded whether the pods were marked.
            let is_inherited = check.before == Ready::Unknown && !self.lost.contains(name);
            match check.after {
                Some(Ready::Unknown) | None => self.lost.insert(name.clone()),
                Some(_) => self.lost.remove(name),
            };
            let view = View {
                node: nodes.get(name).unwrap_or(&check.node).clone(),
                before: check.before,
                after: check.after,
                pods_pending: is_inherited || self.unmarked.contains(name),
                is_queued: queued.contains(name),
                no_node_ready: self.no_node_ready,
            };
            let response = respond(&view);
            if response.marks_pods {
                self.unmarked.insert(name.clone());
                self.to_mark.push(name.clone());
            } else {
                self.unmarked.remove(name);
            }
            let write = response.write(&view, now.wall);
            check.is_busy = write.is_some();
            writes.extend(write.map(|write| write.tag(Tag::Taint)));
            events.extend(response.event(&view.node));
            self.report.responses.push((check.zone.clone(), view, response));
        }
        plan_of(events, writes)
    }

    /// Returns `None` if the pods could not be listed: then the next round tries again.
    fn mark_pods(&mut self, listed: &NodePods, now: Now) -> Option<Effect<Tag>> {
        let NodePods { node, pods } = listed;
        if let Some(at) = self.position(node) {
            self.checks[at].is_busy = true;
        }
        let writes = pods.as_ref().ok()?.iter().filter_map(|pod| mark_live(pod, now.wall));
        let writes: Vec<_> = writes.map(|write| write.tag(Tag::MarkPod(node.clone()))).collect();
        self.unmarked.remove(node);
        Some(Effect::each(writes).into())
    }

    /// Updates the memory with the results of a step's writes. Returns the pause before the next step, or `None` at the
    /// end of a round.
    pub fn apply_outcome(&mut self, outcome: &Outcome<Tag>, now: Instant) -> Option<Duration> {
        for done in outcome.written() {
            let version = done.answer.written().map(|meta| meta.resource_version);
            match &done.tag {
                Tag::FirstCheck(_) => self.written = self.written.max(version),
                Tag::Declare(name) => {
                    self.written = self.written.max(version);
                    if let Some(at) = self.position(name) {
                        (self.checks[at].after, self.checks[at].state) =
                            (Some(Ready::Unknown), State::Settled);
                    }
                }
                Tag::Taint | Tag::MarkPod(_) => {}
            }
        }
        for failure in &outcome.failures {
            match &failure.tag {
                Some(Tag::Declare(name)) if failure.is_one_of(ErrorKinds::OUTCOME_UNKNOWN) => {
                    // If the next read shows `Unknown` conditions, this write has set them, and the pods have to be
                    // marked.
                    self.unmarked.insert(name.clone());
                    if let Some(at) = self.position(name) {
                        self.checks[at].is_declare_unanswered = true;
                    }
                }
                Some(Tag::MarkPod(node)) => {
                    self.unmarked.insert(node.clone());
                }
                Some(Tag::FirstCheck(name)) if failure.is_one_of(ErrorKinds::OUTDATED) => {
                    // The write was not made, so the next check is the first one again.
                    self.health.remove(name);
                }
                _ => {}
            }
        }
        let step = self.step_started.map_or(Duration::ZERO, |start| now.saturating_duration_since(start));
        for check in self.checks.iter_mut().filter(|check| check.is_busy) {
            check.took += step;
            check.is_busy = false;
        }
        self.advance(now)
    }

    /// Selects the next step, and the pause before it.
    fn advance(&mut self, now: Instant) -> Option<Duration> {
        self.step = match std::mem::take(&mut self.step) {
            Step::Check => self.confirm_or_respond(0),
            Step::Confirm { attempt } => self.confirm_or_respond(attempt),
            Step::Respond => next_batch(std::mem::take(&mut self.to_mark)),
            Step::MarkPods { rest, .. } => next_batch(rest),
        };
        match self.step {
            Step::Check => {
                self.end(now);
                None
            }
            Step::Confirm { attempt: 2.. } => Some(BETWEEN_TRIES),
            _ => Some(Duration::ZERO),
        }
    }

    /// Tries again to declare the suspects lost, or gives up for this round.
    fn confirm_or_respond(&mut self, attempts: usize) -> Step {
        let mut suspects = self.checks.iter_mut().filter(|check| check.state == State::Suspect).peekable();
        if suspects.peek().is_some() && attempts < TRIES {
            return Step::Confirm { attempt: attempts + 1 };
        }
        self.give_up_suspects();
        Step::Respond
    }

    /// Leaves the nodes that seem lost as they are in this round.
    fn give_up_suspects(&mut self) {
        let suspects = self.checks.iter_mut().filter(|check| check.state == State::Suspect);
        suspects.for_each(|check| check.state = State::Unsettled);
    }

    fn end(&mut self, now: Instant) {
        let settled = self.checks.drain(..).filter(|check| check.state == State::Settled);
        let nodes = settled.map(|check| check.took).collect();
        let all = self.round_started.map_or(Duration::ZERO, |start| now.saturating_duration_since(start));
        self.report.durations = Some(Durations { nodes, all });
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.checks.binary_search_by(|check| check.node.metadata.name.as_str().cmp(name)).ok()
    }
}

fn next_batch(mut nodes: Vec<SmolStr>) -> Step {
    if nodes.is_empty() {
        return Step::Check;
    }
    let rest = nodes.split_off(nodes.len().min(NODES_PER_STEP));
    Step::MarkPods { batch: nodes, rest }
}

/// A plan of the events, followed by the writes, which are made concurrently.
fn plan_of(events: Vec<Event>, writes: Vec<Write<Tag>>) -> Plan<Tag> {
    let mut effects: Vec<Effect<Tag>> = events.into_iter().map(Effect::from).collect();
    if !writes.is_empty() {
        effects.push(Effect::concurrent(writes).into());
    }
    Plan::of(effects)
}
