use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::super::eviction_queue::{EvictionQueue, Next};

/// Plays a script on one zone, and records which nodes were taken at which second.
struct Play {
    queue: EvictionQueue,
    start: Instant,
    taken: Vec<String>,
}

impl Play {
    fn new(rate: f32) -> Self {
        let mut queue = EvictionQueue::default();
        let start = Instant::now();
        queue.set_rate(&"z".into(), rate, start);
        Self { queue, start, taken: vec![] }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn enter(&mut self, nodes: &str) {
        for node in nodes.split_whitespace() {
            self.queue.add(&"z".into(), &node.into());
        }
    }

    /// Lets time pass, second by second.
    fn run(&mut self, seconds: std::ops::Range<u64>) {
        for second in seconds {
            while let Next::Taint { node, .. } = self.queue.pop(self.at(second)) {
                self.taken.push(format!("{node}@{second}"));
            }
        }
    }

    fn taken(&self) -> String {
        self.taken.join(" ")
    }
}

#[test]
fn nodes_are_taken_in_order_and_no_faster_than_the_rate() {
    let mut play = Play::new(0.1);
    play.enter("a b c a");
    play.run(0..25);
    assert_eq!(play.taken(), "a@0 b@10 c@20");
    play.enter("d");
    play.run(25..60);
    assert_eq!(play.taken(), "a@0 b@10 c@20 d@30", "one unused token is kept");
    play.enter("e f");
    play.run(60..80);
    assert_eq!(play.taken(), "a@0 b@10 c@20 d@30 e@60 f@70");
}

#[test]
fn a_removed_node_costs_no_token() {
    let mut play = Play::new(0.1);
    play.enter("a b c");
    play.run(0..5);
    play.queue.remove("b");
    assert!(play.queue.nodes().eq(["c"]));
    play.run(5..30);
    assert_eq!(play.taken(), "a@0 c@10");
}

#[test]
fn a_zone_that_was_stopped_collects_no_tokens() {
    let mut play = Play::new(0.1);
    play.enter("a b");
    play.queue.set_rate(&"z".into(), 0.0, play.at(0));
    play.run(0..100);
    assert_eq!(play.taken(), "");
    assert_eq!(play.queue.pop(play.at(100)), Next::Idle);
    play.queue.set_rate(&"z".into(), 0.1, play.at(100));
    play.run(100..125);
    assert_eq!(play.taken(), "a@110 b@120");
}

#[test]
fn an_unused_token_survives_a_change_of_rate() {
    let mut play = Play::new(0.1);
    play.queue.set_rate(&"z".into(), 1.0, play.at(5));
    play.enter("a b c");
    play.run(5..8);
    assert_eq!(play.taken(), "a@5 b@6 c@7");
    play.queue.set_rate(&"z".into(), 0.1, play.at(7));
    play.enter("d");
    play.run(7..30);
    assert_eq!(play.taken(), "a@5 b@6 c@7 d@17");
}

#[test]
fn a_node_that_moves_is_queued_in_its_new_zone_only() {
    let mut play = Play::new(0.0);
    play.enter("a");
    play.queue.set_rate(&"y".into(), 0.1, play.start);
    play.queue.add(&"y".into(), &"a".into());
    play.queue.set_rate(&"z".into(), 1.0, play.start);
    play.run(0..5);
    assert_eq!(play.taken(), "a@0");
    play.queue.add(&"y".into(), &"b".into());
    play.queue.retain_zones(|zone| zone == "z");
    assert!(play.queue.nodes().next().is_none());
}

/// What may happen in a zone.
#[derive(Debug, Clone)]
enum Event {
    Enter(u8),
    Leave(u8),
    Rate(f32),
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0u8..20).prop_map(Event::Enter),
        (0u8..20).prop_map(Event::Leave),
        prop_oneof![Just(0.0f32), Just(0.01), Just(0.1), Just(1.0)].prop_map(Event::Rate),
        (1u64..30).prop_map(Event::Pass),
    ]
}

proptest! {
    #[test]
    fn never_more_taints_than_the_rate_allows(events in proptest::collection::vec(any_event(), 1..200)) {
        let zone: SmolStr = "z".into();
        let mut queue = EvictionQueue::default();
        let mut now = Instant::now();
        let mut rate = 1.0f32;
        queue.set_rate(&zone, rate, now);
        // One token to begin with, and those that the rate has added since.
        let mut allowed = 1.0f64;
        let mut taken = 0.0f64;
        let mut waiting: BTreeMap<u8, ()> = BTreeMap::new();
        for event in events {
            match event {
                Event::Enter(n) => {
                    queue.add(&zone, &format!("{n}").into());
                    waiting.insert(n, ());
                }
                Event::Leave(n) => {
                    queue.remove(&format!("{n}"));
                    waiting.remove(&n);
                }
                Event::Rate(new) => {
                    rate = new;
                    queue.set_rate(&zone, rate, now);
                }
                Event::Pass(seconds) => {
                    for _ in 0..seconds {
                        now += Duration::from_secs(1);
                        allowed += f64::from(rate);
                        while let Next::Taint { node, .. } = queue.pop(now) {
                            prop_assert!(waiting.remove(&node.parse::<u8>().unwrap()).is_some(), "{node} was not queued");
                            taken += 1.0;
                        }
                        prop_assert!(taken <= allowed + 1e-6, "{taken} taken, {allowed} allowed");
                        prop_assert!(rate > 0.0 || queue.pop(now) == Next::Idle);
                    }
                }
            }
        }
    }
}
