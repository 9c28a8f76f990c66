use std::sync::Arc;

use flyball_api::Service;
use flyball_cache::{Change, Origin};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::service;
use crate::service::backends::Backends;
use crate::service::invariants;
use crate::service::plan::{Action, Done, FINALIZER, View, differ, plan, with_finalizer, without_finalizer};
use crate::service::triggers::service_changed;

const DELETED: &str = "2026-01-01T00:00:00Z";

fn backends(text: &str) -> Backends {
    text.split_whitespace().map(|name| (name.into(), format!("acme://{name}").into())).collect()
}

#[test]
fn a_service_gets_keeps_and_loses_its_load_balancer() {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let deleting = json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": DELETED}});
    let never = json!({"metadata": {"deletionTimestamp": DELETED}});
    let internal = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}});
    let classed = json!({"spec": {"loadBalancerClass": "example.com/x"}});
    let port = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"ports": [{"port": 81}]}});
    #[rustfmt::skip]
    let table = [
        // case                                 service     made for           points to   nodes   action
        ("new",                                 &json!({}), None,              "",         "a b",  Action::Ensure),
        ("of before a restart",                 &finalizer, None,              "",         "a b",  Action::Ensure),
        ("as it was",                           &finalizer, Some(&finalizer),  "a b",      "a b",  Action::Leave),
        ("one node more",                       &finalizer, Some(&finalizer),  "a",        "a b",  Action::Redirect),
        ("no node left",                        &finalizer, Some(&finalizer),  "a",        "",     Action::Redirect),
        ("another port",                        &port,      Some(&finalizer),  "a",        "a b",  Action::Ensure),
        ("deleted",                             &deleting,  Some(&finalizer),  "a",        "a b",  Action::CleanUp),
        ("deleted, of before a restart",        &deleting,  None,              "",         "a b",  Action::CleanUp),
        ("deleted, and never had one",          &never,     None,              "",         "a b",  Action::Leave),
        ("does not want one any more",          &internal,  Some(&finalizer),  "a",        "a b",  Action::CleanUp),
        ("wants one of somebody else's",        &classed,   None,              "",         "a b",  Action::CleanUp),
    ];
    for (case, wanted, made_for, points_to, nodes, want) in table {
        let current = service(wanted.clone());
        let done = made_for.map(|made_for: &Value| Done {
            ensured: Some(Arc::new(service(made_for.clone()))),
            backends: backends(points_to),
        });
        let view = View { service: &current, done: done.as_ref(), backends: &backends(nodes) };
        assert_eq!(plan(&view), want, "{case}");
        invariants::check(&view);
    }
}

#[test]
fn what_failed_is_done_from_the_beginning() {
    let current = service(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let failed = Done { ensured: None, backends: backends("a") };
    let view = View { service: &current, done: Some(&failed), backends: &backends("a") };
    assert_eq!(plan(&view), Action::Ensure);
}

#[test]
fn a_load_balancer_has_to_follow_what_it_may_depend_on() {
    #[rustfmt::skip]
    let table = [
        // case                    change                                                                   follows
        ("nothing",                json!({}),                                                               false),
        ("labels",                 json!({"metadata": {"labels": {"a": "b"}}}),                             false),
        ("finalizers",             json!({"metadata": {"finalizers": ["x"]}}),                              false),
        ("selector",               json!({"spec": {"selector": {"a": "b"}}}),                               false),
        ("status",                 json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),   false),
        ("internal traffic",       json!({"spec": {"internalTrafficPolicy": "Local"}}),                     false),
        ("annotations",            json!({"metadata": {"annotations": {"a": "b"}}}),                        true),
        ("another one",            json!({"metadata": {"uid": "v"}}),                                       true),
        ("type",                   json!({"spec": {"type": "ClusterIP"}}),                                  true),
        ("class",                  json!({"spec": {"loadBalancerClass": "x"}}),                             true),
        ("source ranges",          json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}),           true),
        ("port",                   json!({"spec": {"ports": [{"port": 81, "nodePort": 30080, "protocol": "TCP"}]}}), true),
        ("node port",              json!({"spec": {"ports": [{"port": 80, "nodePort": 30081, "protocol": "TCP"}]}}), true),
        ("app protocol",           json!({"spec": {"ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP", "appProtocol": "http"}]}}), true),
        ("affinity",               json!({"spec": {"sessionAffinity": "ClientIP"}}),                        true),
        ("affinity's details",     json!({"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}}), true),
        ("address",                json!({"spec": {"loadBalancerIP": "1.2.3.4"}}),                          true),
        ("external addresses",     json!({"spec": {"externalIPs": ["1.2.3.4"]}}),                           true),
        ("external traffic",       json!({"spec": {"externalTrafficPolicy": "Local"}}),                     true),
        ("health check port",      json!({"spec": {"healthCheckNodePort": 31000}}),                         true),
        ("families",               json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}}),                       true),
    ];
    for (case, change, want) in table {
        let (old, new) = (Arc::new(service(json!({}))), Arc::new(service(change)));
        assert_eq!(differ(&old, &new), want, "{case}");
        let change = Change { old: Some(&old), new: Some(&new), origin: Origin::Watch };
        assert_eq!(service_changed(&change).is_some(), want, "{case}");
    }
}

#[test]
fn a_service_comes_and_goes() {
    type Seen = Option<Arc<Service>>;
    let plain = || Arc::new(service(json!({})));
    let internal = || Arc::new(service(json!({"spec": {"type": "ClusterIP"}})));
    let owed =
        || Arc::new(service(json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}})));
    #[rustfmt::skip]
    let table: [(&str, Seen, Seen, bool); 6] = [
        ("one that wants one comes",       None,             Some(plain()),    true),
        ("one that does not comes",        None,             Some(internal()), false),
        ("one that may have one comes",    None,             Some(owed()),     true),
        ("one that may have one is seen",  Some(owed()),     Some(owed()),     true),
        ("one that wants one goes",        Some(plain()),    None,             true),
        ("one that does not goes",         Some(internal()), None,             false),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(service_changed(&change).is_some(), want, "{case}");
    }
}

#[test]
fn the_finalizer_is_patched_among_others() {
    let bare = service(json!({"metadata": {"finalizers": ["other"]}}));
    let bearing = service(json!({"metadata": {"finalizers": ["other", FINALIZER]}}));
    assert_eq!(with_finalizer(&bare), Some(json!({"metadata": {"uid": "u", "finalizers": [FINALIZER]}})));
    assert_eq!(with_finalizer(&bearing), None);
    let removal = json!({"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    assert_eq!(without_finalizer(&bearing), Some(removal));
    assert_eq!(without_finalizer(&bare), None);
}

proptest! {
    #[test]
    fn whatever_happened_the_decision_is_sound(
        kind in prop::sample::select(vec!["LoadBalancer", "ClusterIP", "NodePort"]),
        class in prop::option::of(Just("x")),
        has_finalizer in any::<bool>(),
        deleting in any::<bool>(),
        done in prop::option::of((any::<bool>(), "(a )?(b )?")),
        nodes in "(a )?(b )?",
    ) {
        let finalizers: Vec<&str> = if has_finalizer { vec![FINALIZER] } else { vec![] };
        let current = service(json!({
            "metadata": {"finalizers": finalizers, "deletionTimestamp": deleting.then_some(DELETED)},
            "spec": {"type": kind, "loadBalancerClass": class},
        }));
        let done = done.map(|(ensured, points_to)| Done {
            ensured: ensured.then(|| Arc::new(current.clone())),
            backends: backends(&points_to),
        });
        invariants::check(&View { service: &current, done: done.as_ref(), backends: &backends(&nodes) });
    }
}
