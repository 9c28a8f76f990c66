use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{ObjectMeta, ResourceType, Timestamp};
use flyball_client::{DiscoveredResource, Discovery};
use serde_json::json;

use crate::namespace::content::{Remains, collections, grace, is_second_due, stages};

fn found(group: &str, plural: &str, namespaced: bool, verbs: &str, preferred: bool) -> DiscoveredResource {
    let kind = plural[..1].to_uppercase() + plural[1..].trim_end_matches('s');
    DiscoveredResource {
        resource: ResourceType {
            group: group.into(),
            version: "v1".into(),
            plural: plural.into(),
            kind: kind.into(),
            namespaced,
        },
        verbs: verbs.split(',').map(Into::into).collect(),
        subresources: vec![],
        preferred,
        short_names: vec![],
        categories: vec![],
    }
}

#[test]
fn every_resource_that_can_be_deleted_in_a_namespace_is_found_and_pods_come_first() {
    let all = "delete,deletecollection,list";
    let discovery = Discovery {
        resources: vec![
            found("", "configmaps", true, all, true),
            found("", "pods", true, all, true),
            found("", "nodes", false, all, true),
            found("", "bindings", true, "create", true),
            found("apps", "old", true, all, false),
            found("x.io", "singles", true, "delete,list", true),
            found("x.io", "blinds", true, "delete,deletecollection", true),
        ],
        failures: vec![],
    };
    let found: Vec<String> = collections(&discovery)
        .iter()
        .map(|c| {
            let (list, clear) =
                (if c.can_list { " list" } else { "" }, if c.can_delete_collection { " clear" } else { "" });
            format!("{}{list}{clear}", c.resource)
        })
        .collect();
    assert_eq!(found, ["pods list clear", "configmaps list clear", "blinds.x.io clear", "singles.x.io list"]);
}

#[test]
fn nothing_else_is_deleted_while_pods_remain() {
    let discovery = Discovery {
        resources: vec![
            found("", "configmaps", true, "delete", true),
            found("", "pods", true, "delete", true),
        ],
        failures: vec![],
    };
    let names = |pods_first| {
        let (first, second) = stages(collections(&discovery), pods_first);
        [first, second].map(|stage| {
            stage.into_iter().map(|c| c.resource.plural.to_string()).collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(names(true), ["pods", "configmaps"]);
    assert_eq!(names(false), ["", "pods configmaps"], "without the gate there is no order");
    let pods = |objects| Remains { objects, ..Remains::default() };
    #[rustfmt::skip]
    let table = [
        ("no order",           vec![],                                               true),
        ("no pods",            vec![pods(0)],                                        true),
        ("pods",               vec![pods(2)],                                        false),
        ("pods are not known", vec![Remains::unknown(Duration::ZERO, "overloaded")], true),
    ];
    for (case, first, want) in table {
        assert_eq!(is_second_due(&first), want, "{case}");
    }
}

fn pods(text: &str) -> Vec<Pod> {
    text.split_whitespace()
        .map(|word| {
            let (phase, seconds) = word.split_once('=').unwrap_or((word, ""));
            let seconds: Option<i64> = seconds.parse().ok();
            let pod = json!({"spec": {"terminationGracePeriodSeconds": seconds}, "status": {"phase": phase}});
            serde_json::from_value(pod).unwrap()
        })
        .collect()
}

#[test]
fn pods_have_their_grace_period_and_not_more() {
    #[rustfmt::skip]
    let table = [
        // case                              pods                          seconds passed   grace
        ("no pods",                          "",                                       0,       0),
        ("the slowest counts",               "Running=30 Running=60",                 10,      60),
        ("finished ones do not",             "Running=5 Succeeded=60 Failed=90",       1,       5),
        ("those that wait for a node do",    "Pending=30",                             1,      30),
        ("overdue",                          "Running=30",                            30,       0),
        ("no grace at all",                  "Running=0 Running",                      0,       0),
        ("nonsense is no grace",             "Running=-5",                             0,       0),
        ("clocks that disagree",             "Running=30",                           -10,      30),
    ];
    for (case, text, passed, want) in table {
        let deleted_at = Timestamp::from_second(1_000_000).unwrap();
        let now = Timestamp::from_second(1_000_000 + passed).unwrap();
        assert_eq!(grace(pods(text).iter(), deleted_at, now), Duration::from_secs(want), "{case}");
    }
}

#[test]
fn objects_that_remain_are_waited_for_if_pods_terminate_or_finalizers_hold_them() {
    let things = found("x.io", "things", true, "delete", true).resource;
    let unexpected = "unexpected items still remain in namespace: n for gvr: x.io/v1, Resource=things";
    #[rustfmt::skip]
    let table = [
        // case                    objects (their finalizers)  grace   wait  error
        ("nothing",                vec![],                        30,     0,  None),
        ("pods that end",          vec![""],                      30,    30,  None),
        ("finalizers",             vec!["a", ""],                  0,    15,  None),
        ("pods with finalizers",   vec!["a b", "a"],              30,    30,  None),
        ("no reason to be there",  vec!["", ""],                   0,     0,  Some(unexpected)),
    ];
    for (case, objects, grace, wait, error) in table {
        let mut remains = Remains::default();
        for finalizers in &objects {
            let finalizers = finalizers.split_whitespace().map(Into::into).collect();
            remains.add(&ObjectMeta { finalizers, ..ObjectMeta::default() });
        }
        let assessed = Remains::after_deletion(Some(remains), Duration::from_secs(grace), "n", &things);
        assert_eq!(assessed.wait, Duration::from_secs(wait), "{case}");
        assert_eq!(assessed.error.as_deref(), error, "{case}");
        assert_eq!(assessed.objects, objects.len(), "{case}");
    }
    let unlisted = Remains::after_deletion(None, Duration::from_secs(30), "n", &things);
    assert_eq!(unlisted, Remains { wait: Duration::from_secs(30), ..Remains::default() });
}
