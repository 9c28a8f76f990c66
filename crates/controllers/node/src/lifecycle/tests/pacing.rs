use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::super::pacing::{Pacing, Turn};

/// Plays a script on one zone and tells which nodes had a turn at which second.
struct Play {
    pacing: Pacing,
    start: Instant,
    turns: Vec<String>,
}

impl Play {
    fn new(rate: f32) -> Self {
        let mut pacing = Pacing::default();
        let start = Instant::now();
        pacing.set_rate(&"z".into(), rate, start);
        Self { pacing, start, turns: vec![] }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    fn enter(&mut self, nodes: &str) {
        for node in nodes.split_whitespace() {
            self.pacing.enter(&"z".into(), &node.into());
        }
    }

    /// Lets time pass, second by second.
    fn run(&mut self, seconds: std::ops::Range<u64>) {
        for second in seconds {
            while let Turn::Node { node, .. } = self.pacing.next(self.at(second)) {
                self.turns.push(format!("{node}@{second}"));
            }
        }
    }

    fn told(&self) -> String {
        self.turns.join(" ")
    }
}

#[test]
fn nodes_have_their_turn_in_order_and_no_faster_than_the_rate() {
    let mut play = Play::new(0.1);
    play.enter("a b c a");
    play.run(0..25);
    assert_eq!(play.told(), "a@0 b@10 c@20");
    play.enter("d");
    play.run(25..60);
    assert_eq!(play.told(), "a@0 b@10 c@20 d@30", "a turn not taken is saved, but only one");
    play.enter("e f");
    play.run(60..80);
    assert_eq!(play.told(), "a@0 b@10 c@20 d@30 e@60 f@70");
}

#[test]
fn a_node_that_needs_no_taint_any_more_leaves_its_turn_to_the_next() {
    let mut play = Play::new(0.1);
    play.enter("a b c");
    play.run(0..5);
    play.pacing.leave("b");
    assert!(!play.pacing.waits("b") && play.pacing.waits("c"));
    play.run(5..30);
    assert_eq!(play.told(), "a@0 c@10");
}

#[test]
fn a_zone_that_was_stopped_does_not_make_up_for_it() {
    let mut play = Play::new(0.1);
    play.enter("a b");
    play.pacing.set_rate(&"z".into(), 0.0, play.at(0));
    play.run(0..100);
    assert_eq!(play.told(), "");
    assert_eq!(play.pacing.next(play.at(100)), Turn::Idle);
    play.pacing.set_rate(&"z".into(), 0.1, play.at(100));
    play.run(100..125);
    assert_eq!(play.told(), "a@110 b@120");
}

#[test]
fn a_saved_turn_survives_a_change_of_rate() {
    let mut play = Play::new(0.1);
    play.pacing.set_rate(&"z".into(), 1.0, play.at(5));
    play.enter("a b c");
    play.run(5..8);
    assert_eq!(play.told(), "a@5 b@6 c@7");
    play.pacing.set_rate(&"z".into(), 0.1, play.at(7));
    play.enter("d");
    play.run(7..30);
    assert_eq!(play.told(), "a@5 b@6 c@7 d@17");
}

#[test]
fn a_node_that_moves_waits_in_its_new_zone_only() {
    let mut play = Play::new(0.0);
    play.enter("a");
    play.pacing.set_rate(&"y".into(), 0.1, play.start);
    play.pacing.enter(&"y".into(), &"a".into());
    play.pacing.set_rate(&"z".into(), 1.0, play.start);
    play.run(0..5);
    assert_eq!(play.told(), "a@0");
    play.pacing.enter(&"y".into(), &"b".into());
    play.pacing.keep_zones(|zone| zone == "z");
    assert!(!play.pacing.waits("b"));
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
        let mut pacing = Pacing::default();
        let mut now = Instant::now();
        let mut rate = 1.0f32;
        pacing.set_rate(&zone, rate, now);
        // One may be saved up; then what the rate has allowed since the beginning.
        let mut allowed = 1.0f64;
        let mut taken = 0.0f64;
        let mut waiting: BTreeMap<u8, ()> = BTreeMap::new();
        for event in events {
            match event {
                Event::Enter(n) => {
                    pacing.enter(&zone, &format!("{n}").into());
                    waiting.insert(n, ());
                }
                Event::Leave(n) => {
                    pacing.leave(&format!("{n}"));
                    waiting.remove(&n);
                }
                Event::Rate(new) => {
                    rate = new;
                    pacing.set_rate(&zone, rate, now);
                }
                Event::Pass(seconds) => {
                    for _ in 0..seconds {
                        now += Duration::from_secs(1);
                        allowed += f64::from(rate);
                        while let Turn::Node { node, .. } = pacing.next(now) {
                            prop_assert!(waiting.remove(&node.parse::<u8>().unwrap()).is_some(), "{node} did not wait");
                            taken += 1.0;
                        }
                        prop_assert!(taken <= allowed + 1e-6, "{taken} taken, {allowed} allowed");
                        prop_assert!(rate > 0.0 || pacing.next(now) == Turn::Idle);
                    }
                }
            }
        }
    }
}
