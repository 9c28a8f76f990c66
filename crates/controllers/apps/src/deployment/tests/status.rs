use flyball_api::ReplicaSet;

use super::world::{World, set};
use crate::deployment::annotations::REVISION;
use crate::deployment::decision::decide;
use crate::deployment::status::{Outcome, Statement, statement};

fn computed(world: &World, outcome: Outcome<'_>) -> Statement {
    let view = world.view();
    statement(&view, &decide(&view), outcome)
}

/// The conditions in order, as `Type=Status/Reason`.
fn conditions(statement: &Statement) -> String {
    let shown = |condition: &flyball_api::Condition| {
        format!("{}={}/{}", condition.type_, condition.status, condition.reason)
    };
    statement.status.conditions.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn counts_are_summed_over_all_sets() {
    #[rustfmt::skip]
    let table = [
        // case                            deployment              sets                                             replicas, updated, ready, available, unavailable, terminating
        ("in mid-rollout",                 "replicas=3",           "a=2/2,rev=1 new=2/1,rev=2",                     (4, 2, 3, 3, 1, Some(0))),
        ("settled",                        "replicas=3",           "a=0,rev=1 new=3/3,rev=2",                       (3, 3, 3, 3, 0, Some(0))),
        ("no new set yet",                 "replicas=3 paused",    "a=3/2,rev=1",                                   (3, 0, 2, 2, 1, Some(0))),
        ("more available than wanted",     "replicas=1",           "new=1/3,rev=1,pods=3",                          (3, 3, 3, 3, 0, Some(0))),
        ("terminating ones",               "replicas=3",           "a=0,rev=1,terminating=2 new=3/3,rev=2,terminating=1", (3, 3, 3, 3, 0, Some(3))),
        ("terminating ones not counted",   "replicas=3",           "a=0,rev=1,uncounted new=3/3,rev=2",             (3, 3, 3, 3, 0, None)),
    ];
    for (case, deployment, sets, want) in table {
        let status = computed(&World::new(deployment, sets), Outcome::Done(None)).status;
        let got = (
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.unavailable_replicas,
            status.terminating_replicas,
        );
        assert_eq!(got, want, "{case}");
        assert_eq!(status.observed_generation, 3, "{case}");
    }
}

#[test]
fn a_deployment_is_available_within_max_unavailable() {
    #[rustfmt::skip]
    let table = [
        ("replicas=3 surge=1 unavailable=0", "new=3/3,rev=1", "Available=True/MinimumReplicasAvailable"),
        ("replicas=3 surge=1 unavailable=0", "new=3/2,rev=1", "Available=False/MinimumReplicasUnavailable"),
        ("replicas=3 surge=1 unavailable=1", "new=3/2,rev=1", "Available=True/MinimumReplicasAvailable"),
        ("replicas=3 recreate",              "new=3/2,rev=1", "Available=False/MinimumReplicasUnavailable"),
        ("replicas=0",                       "new=0,rev=1",   "Available=True/MinimumReplicasAvailable"),
    ];
    for (deployment, sets, want) in table {
        let got = computed(&World::new(deployment, sets), Outcome::Done(None));
        assert_eq!(conditions(&got), want, "{deployment}, {sets}");
    }
}

#[test]
fn a_failure_of_a_set_is_a_condition_as_long_as_it_lasts() {
    let failing = "Available=False/MinimumReplicasUnavailable ReplicaFailure=True/FailedCreate";
    #[rustfmt::skip]
    let table = [
        // sets                                              conditions                                        whose
        ("a=1/1,rev=1,failing new=1,rev=2,failing,pods=0",   failing,                                          "new fails"),
        ("a=1/1,rev=1,failing new=1,rev=2,pods=0",           failing,                                          "a fails"),
        ("a=1/1,rev=1 new=1,rev=2,pods=0",                   "Available=False/MinimumReplicasUnavailable",     ""),
    ];
    for (sets, want, whose) in table {
        let got = computed(&World::new("replicas=3", sets), Outcome::Done(None));
        assert_eq!(conditions(&got), want, "{sets}");
        let message = got.status.conditions.last().map_or("", |condition| condition.message.as_str());
        assert!(whose.is_empty() || message == whose, "{message}");
    }
    let mut world = World::new("replicas=3", "new=1,rev=1,failing,pods=0");
    world.deployment.status = computed(&world, Outcome::Done(None)).status;
    world.sets = super::world::sets("new=1,rev=1");
    assert_eq!(
        conditions(&computed(&world, Outcome::Done(None))),
        "Available=False/MinimumReplicasUnavailable"
    );
}

#[test]
fn the_outcome_of_a_creation_is_a_condition() {
    let made = || -> ReplicaSet {
        let mut set = set("web-made=3,uncounted,pods=0", 0);
        set.status = Default::default();
        set
    };
    let world = World::new("replicas=3 deadline=60", "");
    let created = made();
    let done = computed(&world, Outcome::Done(Some(&created)));
    assert_eq!(
        conditions(&done),
        "Progressing=True/NewReplicaSetCreated Available=False/MinimumReplicasUnavailable"
    );
    assert_eq!(done.annotations.get(REVISION), Some("1"));
    assert_eq!((done.status.unavailable_replicas, done.status.terminating_replicas), (3, Some(0)));

    let failed = computed(&world, Outcome::CreateFailed("Failed to create new replica set \"web-x\": no"));
    assert_eq!(conditions(&failed), "Progressing=False/ReplicaSetCreateError");
    assert_eq!(failed.status.observed_generation, 0, "nothing was done about this generation");
    assert_eq!(failed.annotations.get(REVISION), None);
    let without_deadline = World::new("replicas=3", "");
    assert_eq!(conditions(&computed(&without_deadline, Outcome::CreateFailed("no"))), "");

    let taken = computed(&World::new("collisions=1", ""), Outcome::NameTaken);
    assert_eq!(taken.status.collision_count, Some(2));
    assert_eq!(computed(&World::new("", ""), Outcome::NameTaken).status.collision_count, Some(1));
}

#[test]
fn a_set_that_is_found_while_scaling_is_reported_before_the_counts() {
    // Its annotation is five replicas, and the Deployment has three now.
    let mut world = World::new("replicas=3 deadline=60", "new=3/1,rev=1,desired=5,max=6");
    let found = computed(&world, Outcome::Done(None));
    assert_eq!(conditions(&found), "Progressing=True/FoundNewReplicaSet");
    assert_eq!((found.status.replicas, found.annotations.get(REVISION)), (0, Some("1")));

    // Then the counts have changed, which is progress.
    world = World::new("replicas=3 deadline=60", "new=3/1,rev=1,desired=3,max=4");
    (world.deployment.status, world.deployment.metadata.annotations) = (found.status, found.annotations);
    let got = computed(&world, Outcome::Done(None));
    assert_eq!(
        conditions(&got),
        "Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated"
    );
    assert_eq!(got.status.replicas, 3);
}

#[test]
fn an_adopted_set_is_reported_at_once_if_it_needs_no_update() {
    #[rustfmt::skip]
    let table = [
        // sets                           conditions                              revision
        ("new=3/1,rev=1,desired=5,max=6", "Progressing=True/FoundNewReplicaSet",  Some("1")),
        ("new=3/1,desired=5,max=6",       "",                                     None),
        ("a=3/3,rev=1",                   "",                                     None),
    ];
    for (sets, want, revision) in table {
        let got = computed(&World::new("replicas=3 deadline=60", sets), Outcome::Adopted);
        assert_eq!((conditions(&got).as_str(), got.annotations.get(REVISION)), (want, revision), "{sets}");
        assert_eq!(got.status.replicas, 0, "{sets}");
    }
}

#[test]
fn an_unchanged_status_is_not_written() {
    for (deployment, sets) in [
        ("replicas=3 deadline=60", "a=0,rev=1 new=3/3,rev=2"),
        ("replicas=3 deadline=60 paused", "a=1/1,rev=1,desired=3,max=4 new=2/2,rev=2,desired=3,max=4"),
        ("replicas=3 deadline=60 recreate", "a=0,rev=1 new=3,rev=2,pods=0"),
    ] {
        let mut world = World::new(deployment, sets);
        for _ in 0..3 {
            let first = computed(&world, Outcome::Done(None));
            world.deployment.status = first.status;
            world.deployment.metadata.annotations = first.annotations;
        }
        let again = computed(&world, Outcome::Done(None));
        assert_eq!(again.status, world.deployment.status);
        assert_eq!(again.annotations, world.deployment.metadata.annotations);
    }
}
