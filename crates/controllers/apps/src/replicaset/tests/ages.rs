use super::world::{now, pods, set};
use crate::replicaset::ages::ratios;
use crate::replicaset::plan::{View, plan};
use serde_json::json;

#[test]
fn the_ages_of_chosen_pods_are_compared_with_the_youngest() {
    #[rustfmt::skip]
    let table: &[(&str, i32, &str, &[f64])] = &[
        // case                        replicas  pods                                                  ratios
        ("none is deleted",                    2, "a:ready,age=10 b:ready,age=20",                      &[]),
        ("all go: nothing was chosen",         0, "a:ready,age=10 b:ready,age=20",                      &[]),
        ("the youngest itself",                1, "a:ready=5,age=10 b:ready=9000,age=9000",             &[1.0]),
        ("whole multiples",                    1, "a:ready=9,age=29 b:ready=5,age=10 c:ready=9000,age=9000", &[1.0, 2.0]),
        ("only ready ones",                    1, "a:running,age=5 b:ready,age=10",                     &[]),
        ("made just now",                      1, "a:ready=0,age=0 b:ready,age=10",                     &[]),
    ];
    for (case, replicas, own, want) in table {
        let (set, own) = (set(json!({"replicas": replicas}), json!({})), pods(own));
        let view = View { set: &set, pods: &own, family: &[], has_costs: true, now: now() };
        assert_eq!(ratios(&view, &plan(&view)), *want, "{case}");
    }
}
