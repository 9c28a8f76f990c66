use super::world::{now, planned, pods, set};
use crate::replicaset::plan::{View, plan};
use serde_json::json;

#[test]
fn plans_only_the_writes_that_close_the_gap() {
    #[rustfmt::skip]
    let table = [
        // case                          replicas  pods                          plan
        ("settled",                            2, "a:ready b:ready",             ""),
        ("none wanted, none there",            0, "",                            ""),
        ("too few",                            3, "a:ready",                     "create 2"),
        ("a burst at most",                  900, "",                            "create 500"),
        ("all go, in the order they stand",    0, "b:ready a:ready",             "delete b, delete a"),
    ];
    for (case, replicas, pods, want) in table {
        assert_eq!(planned(replicas, pods, ""), want, "{case}");
    }
}

#[test]
fn the_least_useful_pod_goes_first() {
    #[rustfmt::skip]
    let table = [
        // case                                      of two pods, the first goes
        ("unassigned before assigned",               "b:ready a:unscheduled"),
        ("pending before running",                   "b:running a:pending"),
        ("unready before ready",                     "b:ready a:running"),
        ("cheap before dear",                        "b:ready,cost=5 a:ready,cost=-5"),
        ("unsaid cost is zero",                      "b:ready,cost=1 a:ready"),
        ("a cost that is no number is zero",         "b:ready,cost=1 a:ready,cost=lots"),
        ("a cost with a plus sign is no number",     "b:ready a:ready,cost=-1"),
        ("cost counts less than readiness",          "b:ready,cost=-9 a:running,cost=9"),
        ("lately ready before long ready",           "b:ready=9000 a:ready=10"),
        ("many restarts before few",                 "b:ready,restarts=1 a:ready,restarts=7"),
        ("young before old",                         "b:running,age=9000 a:running,age=10"),
        ("within a power of two the uid decides",    "b:ready=3600 a:ready=3500"),
        ("within a power of two the uid decides, 2", "b:ready=3500 a:ready=3600"),
    ];
    for (case, pods) in table {
        assert_eq!(planned(1, pods, ""), "delete a", "{case}");
    }
}

#[test]
fn doubled_up_pods_go_first_when_the_set_has_a_family() {
    let own = "b:ready,on=lonely a:ready,on=crowded";
    assert_eq!(planned(1, own, "c:ready,on=crowded"), "delete a");
    assert_eq!(planned(1, own, "c:ready,on=lonely"), "delete b");
    assert_eq!(
        planned(1, own, "c:ready,on=lonely,terminating d:ready,on=crowded"),
        "delete a",
        "the dying do not count"
    );
    assert_eq!(planned(1, own, ""), "delete a", "without a family they are equals, and the uid decides");
}

/// A whole plan, in words.
fn described(spec: serde_json::Value, own: &str) -> String {
    let (set, own) = (set(spec, json!({})), pods(own));
    plan(&View { set: &set, pods: &own, family: &[], now: now() }).to_string()
}

#[test]
fn plans_state_their_events_and_what_they_wait_for() {
    let created = "\
slow start
  create Pod ns/web-*: 1 pods, 2 wanted
    then event Normal SuccessfulCreate: Created pod: <name>
    else event Warning FailedCreate: Error creating: <error>
waiting for Pod/ns/a to become available";
    assert_eq!(described(json!({"replicas": 2}), "a:running"), created);
    let deleted = "\
concurrently
  delete Pod ns/a: 2 pods, 1 wanted; this one can best be spared: running, not ready
    then event Normal SuccessfulDelete: Deleted pod: a
    else event Warning FailedDelete: Error deleting: <error>
waiting for Pod/ns/a to become available";
    assert_eq!(described(json!({"replicas": 1}), "a:running b:ready"), deleted);
    let template = json!({"metadata": {}, "spec": {}});
    assert_eq!(
        described(json!({"replicas": 1, "template": template}), ""),
        "fail: unable to create pods, no labels"
    );
    assert_eq!(
        described(json!({"replicas": 1, "minReadySeconds": 60}), "a:ready=20"),
        "again after 40s\nwaiting for Pod/ns/a to become available",
    );
}
