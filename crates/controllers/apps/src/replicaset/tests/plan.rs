use super::world::{deleted, now, planned, pods, replication_controller, set};
use crate::replicaset::plan::{View, plan};
use serde_json::json;

#[test]
fn the_number_of_pods_is_brought_to_the_number_of_replicas() {
    #[rustfmt::skip]
    let table = [
        // case                          replicas  pods                          plan
        ("settled",                            2, "a:ready b:ready",             ""),
        ("zero replicas, no pods",             0, "",                            ""),
        ("too few",                            3, "a:ready",                     "create 2"),
        ("at most a burst",                  900, "",                            "create 500"),
        ("all are deleted, in their order",    0, "b:ready a:ready",             "delete b, delete a"),
    ];
    for (case, replicas, pods, want) in table {
        assert_eq!(planned(replicas, pods, ""), want, "{case}");
    }
}

#[test]
fn pods_are_deleted_in_the_order_of_upstream() {
    #[rustfmt::skip]
    let table = [
        // case                                      of two pods, a is deleted
        ("unassigned before assigned",               "b:ready a:unscheduled"),
        ("pending before running",                   "b:running a:pending"),
        ("unready before ready",                     "b:ready a:running"),
        ("low cost before high cost",                 "b:ready,cost=5 a:ready,cost=-5"),
        ("the default cost is zero",                   "b:ready,cost=1 a:ready"),
        ("an invalid cost is zero",                  "b:ready,cost=1 a:ready,cost=lots"),
        ("a cost with a plus sign is invalid",       "b:ready a:ready,cost=-1"),
        ("cost counts less than readiness",          "b:ready,cost=-9 a:running,cost=9"),
        ("recently ready before long ready",           "b:ready=9000 a:ready=10"),
        ("many restarts before few",                 "b:ready,restarts=1 a:ready,restarts=7"),
        ("young before old",                         "b:running,age=9000 a:running,age=10"),
        ("within a power of two the uid decides",    "b:ready=3600 a:ready=3500"),
        ("within a power of two the uid decides, 2", "b:ready=3500 a:ready=3600"),
        ("and not the number of restarts",           "b:ready=3500,restarts=9 a:ready=3600"),
        ("nor the age",                              "b:ready=3500,age=9 a:ready=3600,age=9000"),
        ("unready pods count their restarts at once", "b:running,age=3500 a:running,age=3600,restarts=1"),
        ("a negative cost may have zeros",           "b:ready,cost=-4 a:ready,cost=-05"),
        ("other costs may not",                      "b:ready,cost=1 a:ready,cost=05"),
    ];
    for (case, pods) in table {
        assert_eq!(planned(1, pods, ""), "delete a", "{case}");
    }
}

#[test]
fn pods_that_share_a_node_with_sibling_pods_are_deleted_first() {
    let own = "b:ready,on=lonely a:ready,on=crowded";
    assert_eq!(planned(1, own, "c:ready,on=crowded"), "delete a");
    assert_eq!(planned(1, own, "c:ready,on=lonely"), "delete b");
    assert_eq!(
        planned(1, own, "c:ready,on=lonely,terminating d:ready,on=crowded"),
        "delete a",
        "terminating pods do not count"
    );
    assert_eq!(planned(1, own, ""), "delete a", "without siblings they are equal, and the uid decides");
    let (own, family) = (pods(own), pods("b:ready,on=lonely a:ready,on=crowded c:ready,on=lonely"));
    let controller = replication_controller(1);
    let plan = plan(&View { set: &controller, pods: &own, family: &family, has_costs: true, now: now() });
    assert_eq!(deleted(&plan), "delete a", "a ReplicationController does not count siblings");
}

#[test]
fn of_three_pods_whose_rules_contradict_each_other_one_is_deleted_all_the_same() {
    // c before a: same time, more restarts; a before b and b before c: other times, smaller uid.
    for order in ["a b c", "b c a", "c a b", "c b a", "b a c", "a c b"] {
        let words = order
            .replace('a', "a:ready=3600")
            .replace('b', "b:ready=3500")
            .replace('c', "c:ready=3600,restarts=5");
        assert_eq!(planned(1, &words, ""), "delete c, delete b", "{order}");
    }
}

#[test]
fn without_its_gate_the_cost_of_a_deletion_does_not_count() {
    let (set, own) = (set(json!({"replicas": 1}), json!({})), pods("a:ready,cost=10 b:ready,cost=5"));
    let first = |has_costs| {
        let plan = plan(&View { set: &set, pods: &own, family: &[], has_costs, now: now() });
        plan.writes()[0].key.name.to_string()
    };
    assert_eq!([first(true), first(false)], ["b", "a"]);
}

/// A whole plan, in words.
fn described(spec: serde_json::Value, own: &str) -> String {
    let (set, own) = (set(spec, json!({})), pods(own));
    plan(&View { set: &set, pods: &own, family: &[], has_costs: true, now: now() }).to_string()
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
  delete Pod ns/a: 2 pods, 1 wanted; this one ranks first for deletion: running, not ready
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
