//! Whole rollouts with a random strategy, and pods that become available, or not, at random.

use std::sync::Arc;

use flyball_api::ReplicaSet;
use proptest::prelude::*;
use serde_json::json;

use super::world::{World, set};
use crate::deployment::annotations::{DESIRED_REPLICAS, REVISION, with_sizes};
use crate::deployment::decision::{Action, decide};
use crate::deployment::invariants;
use crate::deployment::status::{Outcome, statement};

fn bound() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..6u8).prop_map(|number| number.to_string()),
        (0..=100u8).prop_map(|part| format!("{part}%"))
    ]
}

fn words() -> impl Strategy<Value = String> {
    let strategy = prop_oneof![
        4 => (bound(), bound()).prop_map(|(surge, unavailable)| format!("surge={surge} unavailable={unavailable}")),
        1 => Just("recreate".to_owned()),
    ];
    (0..30u8, strategy)
        .prop_map(|(replicas, strategy)| format!("replicas={replicas} limit=2 deadline=60 {strategy}"))
}

/// A set of some size, some of whose pods are available, with right or wrong size annotations.
fn set_words() -> impl Strategy<Value = String> {
    let note = prop_oneof![Just(String::new()), (0..40u8).prop_map(|max| format!(",desired=9,max={max}"))];
    (0..25u8, 0..25u8, 0..9u8, note)
        .prop_map(|(size, available, revision, note)| format!("{size}/{available},rev={revision}{note}"))
}

fn sets_text(sets: &[String], has_new: bool) -> String {
    let name = |n: usize| if has_new && n == 0 { "new".to_owned() } else { format!("s{n}") };
    sets.iter().enumerate().map(|(n, words)| format!("{}={words}", name(n))).collect::<Vec<_>>().join(" ")
}

/// Changes the JSON of a set, as the server would.
fn edited(set: &ReplicaSet, edit: impl FnOnce(&mut serde_json::Value)) -> Arc<ReplicaSet> {
    let mut value = serde_json::to_value(set).unwrap();
    edit(&mut value);
    Arc::new(serde_json::from_value(value).unwrap())
}

impl World {
    /// Carries out a plan, as the executor and the server would.
    fn carry_out(&mut self) -> usize {
        let view = self.view();
        let planned = decide(&view);
        invariants::check(&view, &planned).unwrap();
        let statement = statement(&view, &planned, Outcome::Done(None));
        let mut next = self.sets.clone();
        let find = |sets: &[Arc<ReplicaSet>], set: &ReplicaSet| {
            sets.iter().position(|held| held.metadata.uid == set.metadata.uid).unwrap()
        };
        for action in &planned.actions {
            match action {
                Action::Create(new) => {
                    let made =
                        set(&format!("{}={}/0,pods=0,like=new,rev=1,age=0", new.name, new.replicas), 0);
                    next.push(edited(&made, |set| set["metadata"]["annotations"] = json!(new.annotations)));
                }
                Action::Revise { set, annotations, .. } => {
                    let at = find(&next, set);
                    next[at] = edited(&next[at], |set| set["metadata"]["annotations"] = json!(annotations));
                }
                Action::Scale { set, to, .. } => {
                    let at = find(&next, set);
                    let limits = view.limits;
                    let annotations =
                        with_sizes(&next[at].metadata.annotations, limits.desired, limits.most());
                    next[at] = edited(&next[at], |set| {
                        set["spec"]["replicas"] = json!(to);
                        set["metadata"]["annotations"] = json!(annotations);
                    });
                }
                Action::Delete { set } => _ = next.remove(find(&next, set)),
                Action::RollBack(_) => {}
            }
        }
        let writes = planned.actions.len() + usize::from(statement.status != self.deployment.status);
        (self.sets, self.deployment.status) = (next, statement.status);
        self.deployment.metadata.annotations = statement.annotations;
        writes
    }

    /// Runs the ReplicaSet controller and the kubelets: `chance` decides which pods become available.
    fn work(&mut self, mut chance: impl FnMut() -> bool) {
        for held in &mut self.sets {
            let size = held.spec.replicas.unwrap_or(1);
            let kept = held.status.available_replicas.min(size);
            let available = kept + (kept..size).filter(|_| chance()).count() as i32;
            *held = edited(held, |set| {
                set["status"]["replicas"] = json!(size);
                set["status"]["readyReplicas"] = json!(available);
                set["status"]["availableReplicas"] = json!(available);
            });
        }
    }
}

proptest! {
    #[test]
    fn every_plan_keeps_the_invariants(
        words in words(),
        sets in proptest::collection::vec(set_words(), 0..6),
        has_new: bool,
        state in prop::sample::select(vec!["", "", "", "paused", "deleting"]),
    ) {
        let words = format!("{words} {state}");
        let world = World::new(&words, &sets_text(&sets, has_new));
        let view = world.view();
        let planned = decide(&view);
        prop_assert_eq!(invariants::check(&view, &planned), Ok(()));
        prop_assert_eq!(planned.actions, decide(&view).actions, "the same snapshot gives the same plan");
    }

    #[test]
    fn every_rollout_ends_with_all_pods_new_and_then_is_quiet(
        words in words(),
        sets in proptest::collection::vec(set_words(), 0..5),
        has_new: bool,
        luck in proptest::collection::vec(any::<bool>(), 1..60),
    ) {
        let mut world = World::new(&words, &sets_text(&sets, has_new));
        let mut luck = luck.iter().cycle().copied();
        for round in 0..200 {
            let writes = world.carry_out();
            // At first some pods do not become available; then all do.
            world.work(|| round > 10 || luck.next().unwrap_or(true));
            if round > 12 && writes == 0 {
                break;
            }
        }
        let desired = world.view().limits.desired;
        let planned = decide(&world.view());
        let sizes: Vec<_> = planned.fleet.all().map(|set| (set.metadata.name.clone(), set.spec.replicas)).collect();
        let new = planned.fleet.new.expect("the new set is there");
        prop_assert_eq!(new.spec.replicas.map(i64::from), Some(desired), "{:?}", sizes);
        prop_assert_eq!(planned.fleet.active_old().count(), 0, "{:?}", sizes);
        prop_assert!(planned.fleet.old.len() <= 2, "{:?}", sizes);
        let revision = |set: &ReplicaSet| set.metadata.annotations.get(REVISION).and_then(|text| text.parse::<i64>().ok());
        prop_assert!(planned.fleet.old.iter().all(|old| revision(old) < revision(new)), "the latest revision is the new one's");
        if desired > 0 {
            let noted = new.metadata.annotations.get(DESIRED_REPLICAS).map(str::to_owned);
            prop_assert!(noted.is_none_or(|noted| noted == desired.to_string()));
        }
        let reason = world.deployment.status.conditions.iter().find(|c| c.type_ == "Progressing").map(|c| c.reason.to_string());
        prop_assert_eq!(reason.as_deref(), Some("NewReplicaSetAvailable"));
        prop_assert_eq!(world.carry_out(), 0, "a settled Deployment is not written");
    }
}
