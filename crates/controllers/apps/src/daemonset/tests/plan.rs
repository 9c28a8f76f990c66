use std::time::Duration;

use super::world::{described, planned, planned_in_backoff};
use crate::daemonset::plan::selects_all;

#[track_caller]
fn check(table: &[(&str, &str, &str, &str, &str)]) {
    for (case, set, nodes, pods, want) in table {
        assert_eq!(planned(set, nodes, pods), *want, "{case}");
    }
}

#[test]
fn every_matching_node_gets_one_pod() {
    #[rustfmt::skip]
    check(&[
        // case                                   set        nodes                  pods                              plan
        ("nothing there",                         "",        "n1 n2",               "",                               "create n1, create n2"),
        ("one is missing",                        "",        "n1 n2",               "a@n1",                           "create n2"),
        ("settled",                               "",        "n1 n2",               "a@n1 b@n2",                      ""),
        ("a pod that waits to be scheduled counts", "",      "n1",                  "a@n1:unscheduled",               ""),
        ("not where a taint keeps it off",        "",        "n1:keep-off n2",      "",                               "create n2"),
        ("but it may stay there",                 "",        "n1:keep-off",         "a@n1",                           ""),
        ("a taint drives it off",                 "",        "n1:drive-off",        "a@n1 b@n1:terminating",          "delete a misplaced"),
        ("labels moved",                          "zone=x",  "n1:label=y n2:label=x", "a@n1",                         "create n2, delete a misplaced"),
        ("of several the oldest stays",           "",        "n1",                  "a@n1:age=5 b@n1:age=9 c@n1:age=1", "delete a surplus, delete c surplus"),
        ("a scheduled one before an older",       "",        "n1",                  "a@n1:unscheduled,age=9 b@n1:age=1", "delete a surplus"),
        ("a going pod is waited for",             "",        "n1",                  "a@n1:terminating",               ""),
        ("unless it has ended",                   "",        "n1",                  "a@n1:terminating,failed",        "create n1"),
        ("failed pods go",                        "",        "n1",                  "a@n1:failed",                    "delete a failed"),
        ("one after the other",                   "",        "n1",                  "a@n1:failed b@n1:failed",        "delete a failed"),
        ("so do those that ended well",           "",        "n1",                  "a@n1:succeeded",                 "delete a succeeded"),
        ("waiting for a node that is gone",       "",        "n1",                  "a@n1 b@n9:unscheduled",          "delete b node-gone"),
        ("on a node that is gone",                "",        "n1",                  "a@n1 b@n9",                      ""),
    ]);
}

#[test]
fn old_pods_are_replaced_within_max_unavailable() {
    #[rustfmt::skip]
    check(&[
        // case                                   set               nodes        pods                                    plan
        ("one at a time",                         "",               "n1 n2 n3",  "a@n1:old b@n2:old c@n3:old",           "delete a outdated"),
        ("two at a time",                         "unavailable=2",  "n1 n2 n3",  "a@n1:old b@n2:old c@n3:old",           "delete a outdated, delete b outdated"),
        ("percentages round up",                  "unavailable=34%", "n1 n2 n3", "a@n1:old b@n2:old c@n3:old",           "delete a outdated, delete b outdated"),
        ("zero of everything is one",             "unavailable=0",  "n1 n2",     "a@n1:old b@n2:old",                    "delete a outdated"),
        ("a going one counts",                    "",               "n1 n2",     "a@n1:old,terminating b@n2:old",        ""),
        ("an unready new one counts",             "",               "n1 n2",     "a@n1:unready b@n2:old",                ""),
        ("minReadySeconds",                       "min-ready=60",    "n1 n2",     "a@n1:ready=5 b@n2:old",                ""),
        ("old ones that do not serve go at once", "",               "n1 n2 n3",  "a@n1:old,unready b@n2:old,unready c@n3:old", "delete a outdated, delete b outdated"),
        ("by hand",                               "ondelete",       "n1 n2",     "a@n1:old b@n2:old",                    ""),
        ("missing ones come first",               "",               "n1 n2",     "a@n1:old",                             "create n2"),
        ("where it may only stay, it is replaced as well", "",      "n1:keep-off n2", "a@n1:old b@n2",                   "delete a outdated"),
    ]);
}

#[test]
fn with_max_surge_the_new_pod_is_available_before_the_old_is_deleted() {
    #[rustfmt::skip]
    check(&[
        // case                                   set              nodes         pods                                    plan
        ("one at a time",                         "surge=1",       "n1 n2",      "a@n1:old b@n2:old",                    "create n1"),
        ("percentages round up",                  "surge=1%",      "n1 n2",      "a@n1:old b@n2:old",                    "create n1"),
        ("the new one gets ready",                "surge=1",       "n1 n2",      "a@n1:old x@n1:unready b@n2:old",       ""),
        ("the old one goes",                      "surge=1",       "n1 n2",      "a@n1:old x@n1 b@n2:old",               "delete a superseded"),
        ("then the next",                         "surge=1",       "n1 n2",      "x@n1 b@n2:old",                        "create n2"),
        ("minReadySeconds",                       "surge=1 min-ready=60", "n1",   "a@n1:old x@n1:ready=5",                ""),
        ("an old one that does not serve goes when its successor is there", "surge=1", "n1", "a@n1:old,unready x@n1:unready", "delete a superseded"),
        ("and gets it at once",                   "surge=1",       "n1 n2 n3",   "a@n1:old,unready b@n2:old,unready c@n3:old", "create n1, create n2, create n3"),
        ("more than two are too many",            "surge=1",       "n1",         "a@n1:old,age=9 b@n1:old,age=5 x@n1:unready", "delete b surplus"),
        ("a going pod leaves its node empty",     "surge=1",       "n1",         "a@n1:terminating",                     "create n1"),
        ("failed ones are replaced",              "surge=1",       "n1",         "a@n1:failed",                          "create n1, delete a failed"),
        ("where it may only stay, it goes once the others serve", "surge=1", "n1:keep-off n2", "a@n1:old b@n2",        "delete a misplaced"),
        ("but not before",                        "surge=1",       "n1:keep-off n2", "a@n1:old b@n2:unready",            ""),
        ("unless it does not serve",              "surge=1",       "n1:keep-off n2", "a@n1:old,unready b@n2:unready",    "delete a misplaced"),
        ("an old pod of a node that is gone holds it up", "surge=1", "n1",       "a@n1:old z@n9:old",                    ""),
        ("a new one does not",                    "surge=1",       "n1",         "a@n1:old z@n9",                        "create n1"),
        ("and missing ones are made meanwhile",   "surge=1",       "n1 n2",      "a@n1:old z@n9:old",                    "create n2"),
    ]);
}

#[test]
fn failed_pods_are_replaced_after_a_backoff() {
    assert_eq!(planned_in_backoff("n1", "a@n1:failed"), (String::new(), Some(Duration::from_secs(8))));
    assert_eq!(planned_in_backoff("n1", "a@n1:succeeded").0, "delete a succeeded");
}

#[test]
fn a_large_cluster_is_filled_in_bursts() {
    let nodes: Vec<_> = (0..400).map(|n| format!("n{n}")).collect();
    assert_eq!(planned("", &nodes.join(" "), "").matches("create").count(), 250);
    let pods: Vec<_> = (0..400).map(|n| format!("p{n}@n{n}")).collect();
    let tainted: Vec<_> = (0..400).map(|n| format!("n{n}:drive-off")).collect();
    assert_eq!(planned("", &tainted.join(" "), &pods.join(" ")).matches("delete").count(), 250);
}

#[test]
fn invalid_bounds_are_errors() {
    let set = super::world::set("unavailable=lots");
    let (nodes, pods) = (super::world::nodes("n1"), super::world::pods("a@n1"));
    assert!(crate::daemonset::plan::plan(&super::world::view(&set, &nodes, &pods)).is_err());
}

#[test]
fn plans_state_their_events_and_what_they_wait_for() {
    assert_eq!(described("", "n1", "a@n1"), "");
    assert_eq!(
        described("", "n1 n2 n3 n4", "a@n1:failed b@n2:succeeded c@n3:unready"),
        "\
event Warning FailedDaemonPod: Found failed daemon pod ns/a on node n1, will try to kill it
event Normal SucceededDaemonPod: Found succeeded daemon pod ns/b on node n2, will try to delete it
each
  slow start
    create Pod ns/agent-*: node n4 should run a pod and has none
      then event Normal SuccessfulCreate: Created pod: <name>
      else event Warning FailedCreate: Error creating: <error>
  concurrently
    delete Pod ns/a: it failed and is replaced
      then event Normal SuccessfulDelete: Deleted pod: a
      else event Warning FailedDelete: Error deleting: <error>
    delete Pod ns/b: it ended and is replaced
      then event Normal SuccessfulDelete: Deleted pod: b
      else event Warning FailedDelete: Error deleting: <error>
waiting for Pod/ns/c to become available"
    );
}

#[test]
fn plans_have_requeue_times_and_waiting() {
    #[rustfmt::skip]
    let table = [
        // case                            set            nodes      pods                          plan
        ("a pod gets ready",               "",            "n1 n2",   "a@n1 b@n2:unready",          "waiting for Pod/ns/b to become available"),
        ("a pod becomes available",        "min-ready=60", "n1",      "a@n1:ready=20",              "again after 40s\nwaiting for Pod/ns/a to become available"),
        ("a pod that only may stay",       "",            "n1:keep-off", "a@n1:unready",           ""),
    ];
    for (case, set, nodes, pods, want) in table {
        assert_eq!(described(set, nodes, pods), want, "{case}");
    }
}

#[test]
fn a_set_that_selects_all_pods_only_causes_an_event() {
    let mut set = super::world::set("");
    assert_eq!(selects_all(&set), None);
    let mut spec = set.spec.raw().to_value();
    spec["selector"] = serde_json::json!({});
    set.spec = serde_json::from_value(spec).unwrap();
    let event = selects_all(&set).unwrap().to_string();
    assert_eq!(
        event,
        "event Warning SelectingAll: This daemon set is selecting all pods. A non-empty selector is required."
    );
}
