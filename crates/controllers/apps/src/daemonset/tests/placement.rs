use flyball_api::taint::Toleration;
use serde_json::json;

use super::world::{node, set};
use crate::daemonset::placement::{Placement, tolerations};

#[test]
fn names_labels_and_taints_decide_which_nodes_run_pods() {
    #[rustfmt::skip]
    let table = [
        // set                        node                                                     should run  may stay
        ("",                          "n",                                                      (true,  true)),
        ("",                          "n:keep-off",                                             (false, true)),
        ("",                          "n:drive-off",                                            (false, false)),
        ("",                          "n:taint=a/PreferNoSchedule",                             (true,  true)),
        ("bears=a",                   "n:drive-off",                                            (true,  true)),
        ("bears=b",                   "n:drive-off",                                            (false, false)),
        ("zone=x",                    "n:label=x",                                              (true,  true)),
        ("zone=x",                    "n:label=y",                                              (false, false)),
        ("zone=x",                    "n",                                                      (false, false)),
        ("node=n",                    "n",                                                      (true,  true)),
        ("node=m",                    "n",                                                      (false, false)),
        ("",                          "n:taint=node.kubernetes.io/not-ready/NoExecute",         (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/unreachable/NoExecute",       (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/not-ready/NoSchedule",        (false, true)),
        ("",                          "n:taint=node.kubernetes.io/disk-pressure/NoSchedule",    (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/memory-pressure/NoSchedule",  (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/pid-pressure/NoSchedule",     (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/unschedulable/NoSchedule",    (true,  true)),
        ("",                          "n:taint=node.kubernetes.io/network-unavailable/NoSchedule", (false, true)),
        ("host",                      "n:taint=node.kubernetes.io/network-unavailable/NoSchedule", (true, true)),
    ];
    for (words, node_words, want) in table {
        let fit = Placement::of(&set(words), false).on(&node(node_words));
        assert_eq!((fit.should_run, fit.may_stay), want, "{words:?} on {node_words}");
    }
}

#[test]
fn a_limited_toleration_of_the_template_becomes_unlimited() {
    let own: Vec<Toleration> = serde_json::from_value(json!([
        {"key": "mine", "operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    ]))
    .unwrap();
    let mut spec = set("").spec.template.spec.clone();
    spec.tolerations = own.into();
    let all = tolerations(&spec);
    let keys: Vec<_> = all.iter().map(|own| own.key.trim_start_matches("node.kubernetes.io/")).collect();
    assert_eq!(
        keys,
        [
            "mine",
            "not-ready",
            "unreachable",
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable"
        ]
    );
    assert!(all.iter().all(|own| own.toleration_seconds.is_none()));
}
