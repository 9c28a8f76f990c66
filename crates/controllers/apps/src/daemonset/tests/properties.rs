use std::collections::BTreeMap;

use proptest::prelude::*;

use super::world::{nodes, pods, set, view};
use crate::daemonset::invariants;
use crate::daemonset::plan::{created, deleted, plan};

fn pod_words() -> impl Strategy<Value = String> {
    let state = prop_oneof![
        Just("failed"),
        Just("succeeded"),
        Just("unready"),
        Just("ready=5"),
        Just("ready=3600"),
        Just("unscheduled"),
    ];
    let more = prop_oneof![Just(""), Just(""), Just(",terminating")];
    let revision = prop_oneof![Just(""), Just(",old")];
    (0..7u8, state, more, revision, 1..50)
        .prop_map(|(node, state, more, revision, age)| format!("@n{node}:{state}{more}{revision},age={age}"))
}

fn set_words() -> impl Strategy<Value = String> {
    let strategy = prop_oneof![
        Just("ondelete".to_owned()),
        (0..4).prop_map(|most| format!("unavailable={most}")),
        (1..100).prop_map(|most| format!("unavailable={most}%")),
        (1..4).prop_map(|most| format!("surge={most}")),
        (1..100).prop_map(|most| format!("surge={most}%")),
    ];
    (strategy, prop_oneof![Just(""), Just(" min-ready=60"), Just(" bears=a"), Just(" zone=x")])
        .prop_map(|(strategy, more)| format!("{strategy}{more}"))
}

fn node_words() -> impl Strategy<Value = String> {
    let word = prop_oneof![Just(""), Just(""), Just(":keep-off"), Just(":drive-off"), Just(":label=x")];
    proptest::collection::btree_map(0..6u8, word, 0..6).prop_map(|words| {
        words.iter().map(|(node, word)| format!("n{node}{word}")).collect::<Vec<_>>().join(" ")
    })
}

/// Any pods on any nodes, or a state during an update: one pod on each node, or two while surging.
fn pods_anywhere() -> impl Strategy<Value = Vec<String>> {
    let pairs = ["ready=3600", "ready=3600,old", "ready=3600,old", "unready", "unready,old", "ready=5,old"];
    let on_node = (prop::sample::select(pairs.to_vec()), prop::bool::weighted(0.2));
    let tidy = proptest::collection::vec(on_node, 6).prop_map(|nodes| {
        let words = nodes.iter().enumerate().flat_map(|(node, (words, has_successor))| {
            let successor = has_successor.then(|| format!("@n{node}:unready"));
            [Some(format!("@n{node}:{words}")), successor].into_iter().flatten()
        });
        words.collect()
    });
    prop_oneof![proptest::collection::vec(pod_words(), 0..12), tidy]
}

fn named(words: &[String]) -> String {
    words.iter().enumerate().map(|(n, words)| format!("p{n}{words}")).collect::<Vec<_>>().join(" ")
}

proptest! {
    #[test]
    fn every_plan_keeps_the_invariants(
        set_words in set_words(),
        node_words in node_words(),
        pod_words in pods_anywhere(),
    ) {
        let (set, nodes, pods) = (set(&set_words), nodes(&node_words), pods(&named(&pod_words)));
        let view = view(&set, &nodes, &pods);
        let planned = plan(&view).unwrap();
        prop_assert_eq!(invariants::check(&view, &planned), Ok(()));
        let again = plan(&view).unwrap();
        prop_assert_eq!(format!("{planned:?}"), format!("{again:?}"), "the same snapshot gives the same plan");
    }

    /// From any state, carrying out plans leads to one updated pod on each matching node, and then to an empty plan.
    #[test]
    fn plans_lead_to_one_pod_per_node(
        strategy in prop_oneof![Just("unavailable=1"), Just("unavailable=50%"), Just("surge=1"), Just("surge=50%")],
        node_words in node_words(),
        words in proptest::collection::vec(pod_words(), 0..10),
    ) {
        let (set, nodes) = (set(strategy), nodes(&node_words));
        // By the next sync, deleted pods are gone, and all others are ready.
        let settle = |words: &str| words.replace("unscheduled", "ready=3600").replace("unready", "ready=3600");
        let is_there = |node: &str| nodes.iter().any(|one| one.metadata.name == node);
        let mut world: BTreeMap<String, String> = words
            .iter()
            .enumerate()
            .filter(|(_, words)| !words.contains("terminating") && is_there(&words[1..3]))
            .map(|(n, words)| (format!("p{n}"), settle(words)))
            .collect();
        let (mut made, mut steps) = (0, 0);
        loop {
            let text: Vec<_> = world.iter().map(|(name, words)| format!("{name}{words}")).collect();
            let pods = pods(&text.join(" "));
            let view = view(&set, &nodes, &pods);
            let planned = plan(&view).unwrap();
            prop_assert_eq!(invariants::check(&view, &planned), Ok(()));
            if planned.effects().is_empty() {
                for on_node in view.daemon_nodes.values() {
                    let (least, most) = (usize::from(on_node.fit.should_run), usize::from(on_node.fit.may_stay));
                    prop_assert!((least..=most).contains(&on_node.pods.len()));
                    prop_assert!(on_node.pods.iter().all(|pod| view.is_updated(pod) || !on_node.fit.should_run));
                }
                break;
            }
            for deletion in deleted(&planned) {
                world.remove(deletion.pod.metadata.name.as_str());
            }
            for node in created(&planned) {
                made += 1;
                world.insert(format!("new{made}"), format!("@{node}:ready=3600"));
            }
            steps += 1;
            prop_assert!(steps < 100, "no end in sight");
        }
    }
}
