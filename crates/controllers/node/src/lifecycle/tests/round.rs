use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Lease, Node, ObjectMeta, RawJson, ResourceVersion, Timestamp, WithRaw, manifest};
use flyball_client::Error;
use flyball_runtime::plan::{Answer, Done, Failure};
use flyball_runtime::{Outcome, Plan, Retry};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::Instant;

use super::super::health::{GracePeriods, Now};
use super::super::response::Taint;
use super::super::round::{
    Input, LiveLease, LiveNode, Memory, NodePods, Observations, Report, Settings, Step, Tag,
};
use super::super::zone::Policy;
use super::{node, now};

const SETTINGS: Settings = Settings {
    grace: GracePeriods { startup: Duration::from_secs(60), monitor: Duration::from_secs(50) },
    policy: Policy { rate: 0.1, reduced_rate: 0.01, large: 50, threshold: 0.55 },
    verify: 0,
};

/// A cluster with one ready pod on each node, and the rounds over it.
struct World {
    start: Instant,
    memory: Memory,
    second: u64,
    nodes: BTreeMap<SmolStr, (Node, Option<Lease>)>,
    /// From how many suspects on leases are read, and what the server says of them.
    verify: usize,
    live_lease: fn(&str) -> LiveLease,
    /// Changes what is read from the server.
    live: fn(&mut Node),
    is_healthy: bool,
    /// The second in which all leases were renewed that the cache does not show at first.
    late: Option<u64>,
    is_current: bool,
    messages: u64,
    queued: FxHashSet<SmolStr>,
    /// The answers to the next writes that declare nodes lost, last first.
    refusals: Vec<Error>,
    /// Whether a write whose answer is lost was made.
    lost_writes_count: bool,
    can_list_pods: bool,
    reports: Vec<String>,
}

impl World {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            memory: Memory::default(),
            second: 0,
            nodes: BTreeMap::new(),
            verify: 0,
            live_lease: |_| LiveLease::Unreadable,
            live: |_| (),
            is_healthy: true,
            late: None,
            is_current: true,
            messages: 0,
            queued: FxHashSet::default(),
            refusals: vec![],
            lost_writes_count: false,
            can_list_pods: true,
            reports: vec![],
        }
    }

    /// Makes all steps of one round over `"a Ready=True @10; b Ready=True"`: nodes, when they renewed their leases, and
    /// their conditions and taints. Returns all plans.
    fn round(&mut self, second: u64, nodes: &str) -> String {
        self.second = second;
        self.messages += 1;
        self.nodes = nodes.split(';').map(str::trim).filter(|text| !text.is_empty()).map(parse).collect();
        self.reports.clear();
        let mut plans = vec![];
        loop {
            let observations = Observations {
                settings: Settings { verify: self.verify, ..SETTINGS },
                started: self.now().monotonic,
                now: self.now(),
                input: self.observe(),
            };
            let (memory, plan) = std::mem::take(&mut self.memory).round(&observations);
            self.memory = memory;
            let report = self.memory.take_report();
            self.publish(&report);
            plans.extend((!plan.effects().is_empty()).then(|| plan.to_string()));
            let outcome = self.execute(&plan);
            if self.memory.apply_outcome(&outcome, self.now().monotonic).is_none() {
                assert!(self.memory.take_durations().is_some(), "the round has ended");
                return plans.join("\n");
            }
        }
    }

    fn observe(&self) -> Input {
        match self.memory.step() {
            Step::Check => Input::Cluster {
                nodes: self
                    .nodes
                    .values()
                    .map(|(node, lease)| (Arc::new(node.clone()), lease.clone().map(Arc::new)))
                    .collect(),
                lease_messages: self.messages,
                is_healthy: self.is_healthy,
            },
            Step::Confirm { .. } => {
                let suspects = self.memory.suspects();
                let verifies = self.verify > 0 && suspects.len() >= self.verify;
                let cached = |name: &str| {
                    self.late.map(renewed_at).or_else(|| self.nodes[name].1.clone()).map(Arc::new)
                };
                let lease = |name: &str| match verifies {
                    true => (self.live_lease)(name),
                    false => LiveLease::Known(cached(name)),
                };
                let read = |name: SmolStr| LiveNode {
                    node: self.read(&name),
                    lease: lease(&name),
                    name,
                    now: self.now(),
                };
                let nodes = suspects.into_iter().map(read).collect();
                Input::Live { nodes, is_current: self.is_current }
            }
            Step::Respond => Input::Cache {
                nodes: self
                    .nodes
                    .iter()
                    .map(|(name, (node, _))| (name.clone(), Arc::new(node.clone())))
                    .collect(),
                queued: self.queued.clone(),
            },
            Step::MarkPods { batch, .. } => {
                let list = |node: &SmolStr| NodePods {
                    node: node.clone(),
                    pods: if self.can_list_pods { Ok(vec![pod(node)]) } else { Err(refused()) },
                };
                Input::Pods(batch.iter().map(list).collect())
            }
        }
    }

    fn read(&self, name: &str) -> Result<WithRaw<Node>, Error> {
        let mut node = self.nodes[name].0.clone();
        (self.live)(&mut node);
        Ok(WithRaw::new(RawJson::from_value(&manifest(&node).unwrap())).unwrap())
    }

    fn publish(&mut self, report: &Report) {
        for (_, view, response) in &report.responses {
            match response.taint {
                Taint::Queue => self.queued.insert(view.node.metadata.name.clone()),
                Taint::Clear => self.queued.remove(&view.node.metadata.name),
                Taint::Keep | Taint::Replace => false,
            };
        }
        let changes = [("suspended", report.is_suspended), ("no node ready", report.no_node_ready)];
        let changes = changes.iter().filter_map(|(what, is)| Some(format!("{what}: {}", (*is)?)));
        self.reports.extend(changes);
        self.reports.extend(report.refresh_leases.then(|| "relist leases".to_owned()));
    }

    fn execute(&mut self, plan: &Plan<Tag>) -> Outcome<Tag> {
        let mut outcome = Outcome::default();
        for write in plan.writes() {
            let tag = write.tag.clone();
            let refusal = matches!(tag, Tag::Declare(_)).then(|| self.refusals.pop()).flatten();
            let is_made =
                refusal.as_ref().is_none_or(|error| error.outcome_unknown() && self.lost_writes_count);
            if let (Tag::Declare(name), true) = (&tag, is_made) {
                let status = write.body().unwrap()["status"].clone();
                self.nodes.get_mut(name).unwrap().0.status = serde_json::from_value(status).unwrap();
            }
            if let Some(error) = refusal {
                outcome.failures.push(Failure {
                    tag: Some(tag),
                    verb: Some(write.verb()),
                    doing: "updating the status of a node".to_owned(),
                    message: error.to_string(),
                    error: Some(error),
                    retry: Retry::Backoff,
                    is_expected: false,
                });
                continue;
            }
            let meta = ObjectMeta { resource_version: ResourceVersion(7), ..ObjectMeta::default() };
            outcome.done.push(Done { tag, answer: Answer::Written(Some(Box::new(meta))) });
        }
        outcome
    }

    fn now(&self) -> Now {
        Now { wall: time(self.second), monotonic: self.start + Duration::from_secs(self.second) }
    }

    fn queued(&self) -> String {
        let mut names: Vec<&str> = self.queued.iter().map(SmolStr::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    }
}

fn time(second: u64) -> Timestamp {
    Timestamp::from_second(now().as_second() + second as i64).unwrap()
}

fn parse(text: &str) -> (SmolStr, (Node, Option<Lease>)) {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut node = node(rest);
    node.metadata.name = name.into();
    node.metadata.uid = name.into();
    let renewed = rest.split_whitespace().find_map(|word| word.strip_prefix('@'));
    let lease = renewed.map(|second| renewed_at(second.parse().unwrap()));
    (name.into(), (node, lease))
}

fn renewed_at(second: u64) -> Lease {
    let mut lease = Lease::default();
    lease.spec.renew_time = Some(time(second));
    lease
}

fn pod(node: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": format!("on-{node}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn refused() -> Error {
    Error::Deadline { what: "a request".into(), limit: Duration::from_secs(1) }
}

fn answer_lost() -> Error {
    Error::OutcomeUnknown { what: "a request".into(), source: "lost".into(), until: None }
}

const DECLARE_A: &str = "concurrently\n  update Node/status a: the node has not reported for 51 s\n";
const NOT_READY_A: &str = "event Normal NodeNotReady: Node a status is now: NodeNotReady (Node a)\n";
const MARK_A: &str = "concurrently\n  each\n    update Pod/status ns/on-a: its node is not ready\n      \
    then event Warning NodeNotReady: Node is not ready (Pod on-a)";

#[test]
fn pods_of_a_node_that_has_not_reported_yet_are_left_alone() {
    let mut world = World::new();
    world.round(0, "a");
    for second in [5, 10, 15] {
        assert_eq!(world.round(second, "a"), "", "after {second} s");
    }
}

#[test]
fn nodes_are_registered_and_removed() {
    let mut world = World::new();
    let registered = |name| {
        format!(
            "event Normal RegisteredNode: Node {name} event: Registered Node {name} in Controller (Node {name})"
        )
    };
    assert_eq!(
        world.round(0, "a Ready=True @0; b Ready=True @0"),
        [registered("a"), registered("b")].join("\n")
    );
    assert_eq!(world.round(5, "a Ready=True @0; b Ready=True @0"), "");
    let removed = "event Normal RemovingNode: Node b event: Removing Node b from Controller (Node b)";
    assert_eq!(world.round(10, "a Ready=True @0"), removed);
}

#[test]
fn a_silent_node_is_declared_lost_and_its_pods_are_marked() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    assert_eq!(world.round(50, "a Ready=True @0; b Ready=True @45"), "", "within the grace period");
    let lost = [DECLARE_A, NOT_READY_A, MARK_A].concat();
    assert_eq!(world.round(51, "a Ready=True @0; b Ready=True @45"), lost);
    assert_eq!(world.queued(), "a");
    assert_eq!(world.round(56, "a Ready=Unknown @0; b Ready=True @55"), "", "that was all");
    assert_eq!(
        world.round(61, "a Ready=True @60 unreachable:NoExecute; b Ready=True @55"),
        "concurrently\n  patch Node a: the node is ready"
    );
    assert_eq!(world.queued(), "");
}

#[test]
fn a_node_that_the_server_knows_to_be_alive_is_not_declared_lost() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    world.live = |node| {
        let mut conditions = node.status.conditions.to_vec();
        conditions[0].last_heartbeat_time = Some(time(50));
        node.status.conditions = conditions.into();
    };
    assert_eq!(world.round(51, "a Ready=True @0; b Ready=True @50"), "");
    assert_eq!(world.queued(), "");
}

/// This process was stopped for a minute, or the watch of leases lags behind: some events come, old ones first.
#[test]
fn a_node_whose_renewals_are_seen_late_is_not_declared_lost() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    world.is_current = false;
    assert_eq!(world.round(60, "a Ready=True @0; b Ready=True @10"), "", "the cache lags behind");
    assert_eq!(world.queued(), "");
    (world.is_current, world.late) = (true, Some(58));
    assert_eq!(world.round(65, "a Ready=True @0; b Ready=True @20"), "", "it has caught up");
    assert_eq!(world.queued(), "");
    let lost = [DECLARE_A, NOT_READY_A, MARK_A].concat();
    assert_eq!(world.round(116, "a Ready=True @58; b Ready=True @110"), lost, "it has been silent since");
}

#[test]
fn where_many_nodes_seem_lost_at_once_the_leases_on_the_server_decide() {
    fn renewed(second: u64) -> LiveLease {
        let mut lease = Lease::default();
        lease.spec.renew_time = Some(time(second));
        LiveLease::Known(Some(Arc::new(lease)))
    }
    type Read = fn(&str) -> LiveLease;
    #[rustfmt::skip]
    let table: [(&str, usize, Read, &str); 7] = [
        // case                                 verified from   on the server                  lost
        ("never",                               0,              |_| renewed(50),               "a b c"),
        ("fewer than many",                     4,              |_| renewed(50),               "a b c"),
        ("the cache lagged",                    3,              |_| renewed(50),               ""),
        ("the server says the same",            3,              |_| renewed(0),                "a b c"),
        ("one is really lost",                  3,              |name| renewed(if name == "b" { 0 } else { 50 }), "b"),
        ("the server does not answer",          3,              |_| LiveLease::Unreadable,     ""),
        ("the leases are gone",                 2,              |_| LiveLease::Known(None),     "a b c"),
    ];
    for (case, verify, live_lease, want) in table {
        let mut world = World { verify, live_lease, ..World::new() };
        world.round(0, "a Ready=True @0; b Ready=True @0; c Ready=True @0; d Ready=True @0");
        world.round(51, "a Ready=True @0; b Ready=True @0; c Ready=True @0; d Ready=True @50");
        assert_eq!(world.queued(), want, "{case}");
    }
}

#[test]
fn declaring_a_node_lost_is_tried_five_times() {
    for (refusals, declared) in [(2, true), (4, true), (5, false)] {
        let mut world = World::new();
        world.round(0, "a Ready=True @0; b Ready=True @0");
        world.refusals = (0..refusals).map(|_| refused()).collect();
        let tries = DECLARE_A.repeat(5.min(refusals + 1));
        let want = if declared { [&tries, NOT_READY_A, MARK_A].concat() } else { tries };
        assert_eq!(world.round(51, "a Ready=True @0; b Ready=True @50"), want.trim_end(), "{refusals}");
        assert_eq!(world.queued(), if declared { "a" } else { "" });
    }
}

#[test]
fn a_declaration_whose_answer_was_lost_counts_if_the_server_shows_it() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    (world.refusals, world.lost_writes_count) = (vec![answer_lost()], true);
    let lost = [DECLARE_A, NOT_READY_A, MARK_A].concat();
    assert_eq!(world.round(51, "a Ready=True @0; b Ready=True @50"), lost);
}

#[test]
fn pods_are_marked_if_an_answer_was_lost_and_the_node_turns_out_to_be_declared_lost() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    world.refusals = (0..5).map(|_| answer_lost()).collect();
    assert_eq!(world.round(51, "a Ready=True @0; b Ready=True @50"), DECLARE_A.repeat(5).trim_end());
    assert_eq!(world.queued(), "", "nothing follows in this round");
    assert_eq!(world.round(56, "a Ready=Unknown @0; b Ready=True @55"), MARK_A);
    assert_eq!(world.queued(), "a");
}

#[test]
fn pods_that_could_not_be_listed_are_marked_in_a_later_round() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    world.can_list_pods = false;
    assert_eq!(
        world.round(51, "a Ready=True @0; b Ready=True @50"),
        [DECLARE_A, NOT_READY_A, "concurrently"].concat()
    );
    world.can_list_pods = true;
    assert_eq!(world.round(56, "a Ready=Unknown @0; b Ready=True @55"), MARK_A);
    assert_eq!(world.round(61, "a Ready=Unknown @0; b Ready=True @60"), "");
}

#[test]
fn pods_are_marked_once_if_an_earlier_run_has_declared_the_node_lost() {
    for first in ["a Ready=Unknown @0; b Ready=True @0", "a Ready=True @0; b Ready=True @0"] {
        let mut world = World::new();
        let at_once = world.round(0, first).contains("update Pod/status");
        assert_eq!(at_once, first.contains("Unknown"), "{first}");
        let later = world.round(5, "a Ready=Unknown @0; b Ready=True @5");
        assert_eq!(
            later,
            if at_once { "" } else { MARK_A },
            "the cache shows it when it is first checked or later"
        );
        assert_eq!(world.round(10, "a Ready=Unknown @0; b Ready=True @10"), "");
        world.round(15, "a Ready=True @15; b Ready=True @15");
        assert_eq!(world.round(20, "a Ready=Unknown @15; b Ready=True @20"), MARK_A, "again");
    }
}

#[test]
fn time_in_which_rounds_had_to_wait_does_not_count() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0");
    assert_eq!(world.round(5, "a Ready=True @0"), "");
    world.memory.held();
    assert_eq!(world.round(65, "a Ready=True @0"), "", "only 5 of these 65 seconds count");
    assert_eq!(world.round(105, "a Ready=True @0"), "");
    assert_ne!(world.round(115, "a Ready=True @0"), "", "a node that stays silent is declared lost");
}

#[test]
fn pods_of_a_lost_node_are_marked_again_after_a_restore() {
    let mut world = World::new();
    world.round(0, "a Ready=Unknown @0; b Ready=True @0");
    assert_eq!(world.round(5, "a Ready=Unknown @0; b Ready=True @5"), "");
    world.memory.restored();
    assert_eq!(world.round(10, "a Ready=Unknown @0; b Ready=True @10"), MARK_A);
    assert_eq!(world.round(15, "a Ready=Unknown @0; b Ready=True @15"), "");
}

#[test]
fn checks_are_suspended_while_informers_are_unhealthy() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    world.is_healthy = false;
    for second in [40, 80, 120] {
        assert_eq!(world.round(second, "a Ready=True @0; b Ready=True @0"), "", "at {second} s");
    }
    world.is_healthy = true;
    assert_eq!(world.round(121, "a Ready=True @0; b Ready=True @120"), "");
    assert_eq!(world.reports, ["suspended: false"]);
    assert_eq!(world.round(170, "a Ready=True @0; b Ready=True @165"), "", "120 s do not count");
    assert_ne!(world.round(171, "a Ready=True @0; b Ready=True @165"), "");
}

#[test]
fn checks_are_suspended_while_the_watch_of_leases_delivers_nothing() {
    let mut world = World::new();
    let nodes = "a Ready=True @0; b Ready=True @0";
    world.round(0, nodes);
    for (second, want) in
        [(5, vec![]), (20, vec!["relist leases"]), (30, vec!["suspended: true", "relist leases"])]
    {
        world.messages -= 1;
        assert_eq!(world.round(second, nodes), "", "at {second} s");
        assert_eq!(world.reports, want, "at {second} s");
    }
}

#[test]
fn no_pods_are_evicted_while_no_node_is_ready() {
    let mut world = World::new();
    world.round(0, "a Ready=True @0; b Ready=True @0");
    let lost = world.round(51, "a Ready=True @0; b Ready=True @0");
    assert_eq!(lost.matches("update Node/status").count(), 2, "{lost}");
    assert_eq!((world.queued().as_str(), world.reports.concat().as_str()), ("", "no node ready: true"));
    let tainted = "a Ready=Unknown @0 unreachable:NoExecute; b Ready=Unknown @0";
    assert_eq!(
        world.round(56, tainted),
        "concurrently\n  patch Node a: no node is ready, so no pods are evicted"
    );
    world.round(61, "a Ready=True @0; b Ready=True @60");
    assert_eq!(world.reports, ["no node ready: false"]);
    assert_eq!(world.round(111, "a Ready=True @0; b Ready=True @110"), "", "grace periods began again");
}

#[test]
fn the_first_check_removes_taints_that_evict() {
    let mut world = World::new();
    let plan = world.round(0, "a Ready=True @0 unreachable:NoExecute");
    assert!(plan.contains("patch Node a: first check of the node by this process"), "{plan}");
}

#[test]
fn pods_of_many_nodes_are_marked_in_batches() {
    let mut world = World::new();
    let nodes = |status: &str, renewed: u64| {
        let silent: Vec<String> = (10..30).map(|n| format!("n{n} Ready={status} @0")).collect();
        let ready: Vec<String> = (30..60).map(|n| format!("n{n} Ready=True @{renewed}")).collect();
        [silent, ready].concat().join("; ")
    };
    world.round(0, &nodes("True", 0));
    let plans = world.round(51, &nodes("True", 50));
    assert_eq!(plans.matches("\nconcurrently\n  each").count(), 3, "20 nodes in batches of 8");
    assert_eq!(plans.matches("update Pod/status").count(), 20);
    assert_eq!(world.queued().split(' ').count(), 20);
}
