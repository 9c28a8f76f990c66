use flyball_runtime::ErrorKinds;
use flyball_runtime::plan::Order;

use super::world::{checked, planned};
use crate::statefulset::plan::Step;

#[track_caller]
fn check(table: &[(&str, &str, &str, &str)]) {
    for (case, set, pods, want) in table {
        assert_eq!(planned(set, pods, ""), *want, "{case}");
    }
}

#[test]
fn an_ordered_set_makes_one_step_and_waits() {
    #[rustfmt::skip]
    check(&[
        // case                                        set            pods                              plan
        ("nothing there",                              "3",           "",                               "create 0 new | 0 created"),
        ("the first is starting",                      "3",           "0:pending",                      "| 0 ready"),
        ("the first runs and is not ready",            "3",           "0:unready",                      "| 0 ready"),
        ("the first is ready",                         "3",           "0",                              "create 1 new | 1 created"),
        ("ready for too short a time",                 "3 min-ready=60", "0:ready=10",                   "| 0 available"),
        ("ready for long enough",                      "3 min-ready=60", "0:ready=60",                   "create 1 new | 1 created"),
        ("a gap is filled first",                      "3",           "0 2",                            "create 1 new | 1 created"),
        ("a pod before it that goes holds it up",      "3",           "0 1:terminating",                "| 1 deleted"),
        ("a failed pod goes",                          "3",           "0:failed 1 2",                   "delete 0 finished | 0 deleted"),
        ("a pod that ended well goes, too",            "3",           "0:succeeded 1 2",                "delete 0 finished | 0 deleted"),
        ("once",                                       "3",           "0:failed,terminating 1 2",       "| 0 deleted"),
        ("settled",                                    "3",           "0 1 2",                          ""),
        ("none wanted",                                "0",           "",                               ""),
        ("being deleted",                              "3 deleting",  "0:failed",                       ""),
        ("counting from six",                          "2 start=6",   "6",                              "create 7 new | 7 created"),
        ("pods of other names are left alone",         "1",           "0 x:name=db-x",                  ""),
    ]);
}

#[test]
fn a_parallel_set_does_not_wait() {
    #[rustfmt::skip]
    check(&[
        // case                                        set              pods                            plan
        ("nothing there",                              "3 parallel",    "",                             "create 0 new, create 1 new, create 2 new | 2 created"),
        ("gaps, whatever the others do",               "4 parallel",    "0:pending 2:unready",          "create 1 new, create 3 new | 3 created"),
        ("failed pods beside new ones",                "3 parallel",    "1:failed",                     "create 0 new, delete 1 finished, create 2 new | 2 created"),
        ("scaled down at once",                        "1 parallel",    "0:unready 1 2:unready 3:terminating", "delete 2 scaled, delete 1 scaled | 0 available"),
        ("settled",                                    "2 parallel",    "0 1",                          ""),
    ]);
}

#[test]
fn an_ordered_set_scales_down_from_the_last() {
    #[rustfmt::skip]
    check(&[
        // case                                        set            pods                              plan
        ("the last goes first",                        "1",           "0 1 2",                          "delete 2 scaled | 2 deleted"),
        ("and is waited for",                          "1",           "0 1 2:terminating",              "| 2 deleted"),
        ("not while a wanted pod is unready",          "1",           "0:unready 1 2",                  "| 0 ready"),
        ("the only unready one goes",                  "1",           "0 1 2:unready",                  "delete 2 scaled | 2 deleted"),
        ("an unready one before it holds it up only if it is unready itself", "1", "0 1:unready 2",     "delete 2 scaled | 2 deleted"),
        ("of two unready ones the first must go first","1",           "0 1:unready 2:unready",          "| 2 ready"),
        ("minReadySeconds, too",                       "1 min-ready=60", "0 1:ready=1 2:ready=1",        "| 2 available"),
        ("ready by its conditions, but not running",   "1",           "0 1 2:phase=Unknown",            "| 2 ready"),
        ("numbers below the start",                    "2 start=5",   "0 5 6",                          "delete 0 scaled | 0 deleted"),
        ("scaling comes before updating",              "2",           "0:old 1:old 2:old",              "delete 2 scaled | 2 deleted"),
    ]);
}

#[test]
fn updates_start_at_the_last_pod_and_end_at_the_partition() {
    #[rustfmt::skip]
    check(&[
        // case                                        set               pods                           plan
        ("the last goes first",                        "3",              "0:old 1:old 2:old",           "delete 2 old | 2 deleted"),
        ("one after the other",                        "3",              "0:old 1:old 2",               "delete 1 old | 1 deleted"),
        ("an updated pod must be ready",               "3",              "0:old 1:old 2:unready",       "| 2 ready"),
        ("and available",                              "3 min-ready=60",  "0:old 1:old 2:ready=5",       "| 2 available"),
        ("a deleted one comes back updated",           "3",              "0:old 1:old",                 "create 2 new | 2 created"),
        ("the partition stays",                        "3 partition=2",  "0:old 1:old 2",               ""),
        ("the partition comes back old",               "3 partition=2",  "1:old 2",                     "create 0 old | 0 created"),
        ("a partition beyond the end",                 "3 partition=9",  "0:old 1:old 2:old",           ""),
        ("a partition counts from the start",          "3 start=4 partition=2", "4:old 5:old 6:old",    "delete 6 old | 6 deleted"),
        ("on delete",                                  "3 ondelete",     "0:old 1:old 2:old",           ""),
        ("on delete, by hand",                         "3 ondelete",     "0:old 1:old",                 "create 2 new | 2 created"),
        ("a parallel set updates one by one",          "3 parallel",     "0:old 1:old 2:old",           "delete 2 old | 2 deleted"),
        ("and waits for the updated one",              "3 parallel",     "0:old 1:old 2:unready",       "| 2 available"),
        ("an old unready one does not stop it",        "3 parallel",     "0:old,unready 1:old 2:old,unready", "delete 2 old | 2 deleted"),
        ("one that has ended goes once",               "3 parallel",     "0:old 1:old 2:old,failed",    "delete 2 finished | 2 available"),
        ("an update without parameters      ",          "3 bare currents=2", "",                       "create 0 old | 0 created"),
        ("an update without parameters      , 2",       "3 bare currents=2", "0:old 1:old",            "create 2 new | 2 created"),
    ]);
}

#[test]
fn max_unavailable_counts_all_unavailable_pods() {
    #[rustfmt::skip]
    check(&[
        // case                                        set                           pods                             plan
        ("two at a time",                              "4 parallel unavailable=2",   "0:old 1:old 2:old 3:old",       "delete 3 old, delete 2 old"),
        ("one of them is missing already",             "4 parallel unavailable=2",   "0:old 1:old 2:old 3:unready",   "delete 2 old"),
        ("both are",                                   "4 parallel unavailable=2",   "0:old 1:old 2:unready 3:unready", ""),
        ("an unready old one counts",                  "4 parallel unavailable=1",   "0:old,unready 1:old 2:old 3:old", ""),
        ("percentages round down",                     "4 parallel unavailable=60%", "0:old 1:old 2:old 3:old",       "delete 3 old, delete 2 old"),
        ("but not to nothing",                         "4 parallel unavailable=1%",  "0:old 1:old 2:old 3:old",       "delete 3 old"),
        ("the partition stays",                        "4 unavailable=3 partition=3", "0:old 1:old 2:old 3:old",      "delete 3 old"),
        ("a partition beyond the end",                 "4 unavailable=3 partition=7", "0:old 1:old 2:old 3:old",      ""),
        ("an ordered set waits for the first",         "4 unavailable=2",            "0:old 1:old 2:unready 3:old",   "| 2 ready"),
    ]);
}

#[test]
fn a_stuck_pod_is_replaced_only_with_the_annotation() {
    #[rustfmt::skip]
    check(&[
        // case (kubernetes/kubernetes#67250)          set                pods                          plan
        ("stuck on a broken revision",                 "3",               "0:old 1:old 2:broken,unready", "| 2 ready"),
        ("replaced when asked",                        "3 replace-stuck", "0:old 1:old 2:broken,unready", "delete 2 stuck | 2 deleted"),
        ("one at a time",                              "3 replace-stuck", "0:old 1:broken,pending 2:broken,pending", "delete 1 stuck | 1 deleted"),
        ("not while it goes",                          "3 replace-stuck", "0:old 1:old 2:broken,unready,terminating", "| 2 deleted"),
        ("not what is of the right revision",          "3 replace-stuck", "0:old 1:old 2:unready",      "| 2 ready"),
        ("not what serves",                            "3 replace-stuck", "0:broken 1:unready 2",       "| 1 ready"),
        ("not one that is not available yet",         "3 replace-stuck min-ready=60", "0:old,ready=1 1:old 2:old", "| 0 available"),
        ("below the partition the old is right",       "3 replace-stuck partition=3", "0:old,unready 1:old 2:old", "| 0 ready"),
        ("not with updates by hand",                   "3 replace-stuck ondelete", "0:old,unready 1:old 2:old", "| 0 ready"),
    ]);
}

#[test]
fn identity_and_storage_are_repaired() {
    #[rustfmt::skip]
    let table = [
        // case                                   set         pods                        claims          plan
        ("without its name",                      "1",        "0:nameless",               "",             "repair 0"),
        ("an unready pod waits, ordered",         "1",        "0:nameless,unready",       "",             "| 0 ready"),
        ("an unready pod does not, parallel",     "1 parallel", "0:nameless,unready",     "",             "repair 0 | 0 available"),
        ("with the claim of another",             "1 claims", "0:mounts=data-db-1",       "0",            "repair 0"),
        ("of which its own is missing",           "1 claims", "0:mounts=data-db-1",       "",             "create data-0, repair 0"),
        ("all is well",                           "1 claims", "0",                        "0",            ""),
        ("a running pod does without its claim",  "1 claims", "0",                        "",             ""),
        ("a waiting one does not",                "1 claims", "0:pending",                "",             "create data-0 | 0 ready"),
        ("nor with one that goes",                "1 claims", "0:pending",                "0:deleting",   "fail pvc data-db-0 is being deleted | 0 ready"),
        ("a waiting pod with its claim",          "1 claims", "0:pending",                "0",            "| 0 ready"),
        ("owners are corrected, pod by pod",      "2 claims deleted", "0 1",              "0 1:set",      "own data-0 by StatefulSet, repair 0"),
        ("owners of a waiting pod's claims",      "1 claims deleted", "0:pending",        "0",            "own data-0 by StatefulSet | 0 ready"),
        ("a contested claim causes an event",     "1 claims deleted", "0:pending",        "0:other",      "warn ConflictingController | 0 ready"),
        ("a pod that goes takes its claim along", "1 claims scaled", "0 1",               "0 1",          "own data-1 by Pod; delete 1 scaled | 1 deleted"),
        ("once it owns it",                       "1 claims scaled", "0 1",               "0 1:pod",      "delete 1 scaled | 1 deleted"),
        ("a new pod has its claims before it",    "1 claims", "",                         "",             "create data-0, create 0 new | 0 created"),
        ("and the owners of others after it",     "1 claims deleted", "",                 "0",            "create 0 new, own data-0 by StatefulSet | 0 created"),
        ("a claim that goes is in the way",       "1 claims", "",                         "0:deleting",   "fail pvc data-db-0 is being deleted, create 0 new | 0 created"),
        ("claims of an earlier pod are in the way", "1 claims scaled", "",                "0:stale-pod",  "| data-0 deleted"),
        ("unless they are kept",                  "1 claims", "",                         "0:stale-pod",  "create 0 new | 0 created"),
        ("a parallel set goes on with the others", "2 claims scaled parallel", "",        "0:stale-pod",  "create data-1, create 1 new | 1 created"),
    ];
    for (case, set, pods, claims, want) in table {
        assert_eq!(planned(set, pods, claims), want, "{case}");
    }
}

#[test]
fn plans_state_their_events_and_what_they_wait_for() {
    let create = checked("2 claims", "0", "0");
    assert_eq!(
        create.to_string(),
        "\
in sequence
  in sequence
  in sequence
    in sequence
      each
        create PersistentVolumeClaim ns/data-db-1: the pod db-1 needs it
          then event Normal SuccessfulCreate: Create Claim data-db-1 Pod db-1 in StatefulSet db success
          else event Warning FailedCreate: Create Claim data-db-1 for Pod db-1 in StatefulSet db failed error: <error>
      else event Warning FailedCreate: Create Pod db-1 in StatefulSet db failed error: <error>
      each
        create Pod ns/db-1: the pod with ordinal 1 is missing
          else event Warning FailedCreate: Create Pod db-1 in StatefulSet db failed error: <error>
        in sequence
        else event Warning FailedUpdate: Update Pod db-1 in StatefulSet db failed error: <error>
    then event Normal SuccessfulCreate: Create Pod db-1 in StatefulSet db successful
waiting for Pod/ns/db-1 to be created"
    );
    let repair = checked("1 claims deleted", "0:nameless", "0:other,set");
    assert_eq!(
        repair.to_string(),
        "\
in sequence
  in sequence
    in sequence
      in sequence
        event Warning ConflictingController: PersistentVolumeClaim data-db-0 has a conflicting OwnerReference that acts \
as a manging controller, the retention policy is ignored for this claim
        update PersistentVolumeClaim ns/data-db-0: the retention policy requires other owners
      update Pod ns/db-0: its identity, its storage or the owners of its claims are wrong
    then event Normal SuccessfulUpdate: Update Pod db-0 in StatefulSet db successful
    else event Warning FailedUpdate: Update Pod db-0 in StatefulSet db failed error: <error>"
    );
    let update = checked("2 parallel min-ready=60", "0:old,ready=20 1:old", "");
    assert_eq!(
        update.to_string(),
        "\
in sequence
  in sequence
    in sequence
      delete Pod ns/db-1: it is of an old revision
    then event Normal SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful
    else event Warning FailedDelete: Delete Pod db-1 in StatefulSet db failed error: <error>
again after 40s
waiting for Pod/ns/db-1 to be deleted"
    );
    let pending = checked("1 claims", "0:pending", "");
    assert_eq!(
        pending.to_string(),
        "\
in sequence
  in sequence
    each
      create PersistentVolumeClaim ns/data-db-0: the pod db-0 needs it
        then event Normal SuccessfulCreate: Create Claim data-db-0 Pod db-0 in StatefulSet db success
        else event Warning FailedCreate: Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: <error>
    in sequence
    else event Warning FailedUpdate: Update Pod db-0 in StatefulSet db failed error: <error>
waiting for Pod/ns/db-0 to become ready"
    );
}

#[test]
fn harmless_errors_are_ignored() {
    #[rustfmt::skip]
    let table = [
        // case                                        set                 pods          claims     accepted
        ("a deleted pod may be gone or replaced",      "0",                "0",          "",        ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT),
        ("a pod may change if only owners were wrong", "1 claims deleted", "0",          "0",       ErrorKinds::CONFLICT),
        ("but not if it has to be repaired",           "1",                "0:nameless", "",        ErrorKinds::NONE),
        ("nor may its name be taken",                  "1",                "",           "",        ErrorKinds::NONE),
    ];
    for (case, set, pods, claims, want) in table {
        let plan = checked(set, pods, claims);
        assert_eq!(plan.writes().last().unwrap().ignore, want, "{case}");
    }
}

#[test]
fn the_next_sync_is_when_a_ready_pod_becomes_available() {
    #[rustfmt::skip]
    let table = [
        // case                            set                   pods                     seconds
        ("without minReadySeconds",        "1",                  "0:ready=5",             None),
        ("all are available",              "1 min-ready=60",      "0",                     None),
        ("one is on its way",              "1 min-ready=60",      "0:ready=5",             Some(55)),
        ("one is not even ready",          "1 min-ready=60",      "0:unready",             None),
        ("one that is not wanted",         "0 min-ready=60",      "0:ready=5",             Some(55)),
        ("of a set that is being deleted", "1 min-ready=60 deleting", "0:ready=5",         Some(55)),
        ("a pod of another name",          "0 min-ready=60",      "0:ready=5,name=db-x",   None),
    ];
    for (case, set, pods, want) in table {
        assert_eq!(checked(set, pods, "").requeue.map(|wait| wait.as_secs()), want, "{case}");
    }
}

#[test]
fn a_huge_parallel_set_is_created_in_bursts() {
    let plan = planned("2147483647 parallel", "", "");
    assert_eq!(plan.matches("create ").count(), 500);
    assert!(plan.ends_with("| 499 created"));
}

#[test]
fn an_invalid_max_unavailable_is_an_error() {
    let set = super::world::set("2 parallel unavailable=lots");
    let (pods, claims) = (super::world::pods("0:old 1:old"), Default::default());
    assert!(crate::statefulset::plan::plan(&super::world::view(&set, &pods, &claims)).is_err());
}

#[test]
fn batches_of_a_parallel_set_are_counted_in_pods() {
    let plan = checked("3 parallel", "0", "");
    let [Step::Group(stage)] = plan.effects() else { panic!("{plan}") };
    // The first pod is one batch, the others are the next: a name conflict delays no other pod.
    let steps = stage.effects.iter().map(|pod| match pod {
        Step::Group(steps) => steps.effects.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!((stage.order, steps.collect::<Vec<_>>()), (Order::SlowStart, vec![0, 1, 1]));
}

#[test]
fn only_a_parallel_set_works_concurrently_and_not_during_an_update() {
    #[rustfmt::skip]
    let table = [
        // set                        pods              orders of its stages
        ("2",                         "",               vec![Order::Sequence]),
        ("2 parallel",                "",               vec![Order::SlowStart]),
        ("1 parallel",                "0:old 1",        vec![Order::SlowStart, Order::Sequence]),
        ("2 parallel unavailable=2",  "0:old 1:old",    vec![Order::Sequence]),
    ];
    for (set, pods, want) in table {
        let plan = checked(set, pods, "");
        let orders = plan.effects().iter().map(|stage| match stage {
            Step::Group(stage) => stage.order,
            other => panic!("{other:?}"),
        });
        assert_eq!(orders.collect::<Vec<_>>(), want, "{set} with {pods}");
    }
}
