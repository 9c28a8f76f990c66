use std::sync::Arc;
use std::time::Duration;

use flyball_api::Service;
use flyball_cache::{Change, Origin};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::service;
use crate::CloudError;
use crate::service::backends::Backends;
use crate::service::invariants;
use crate::service::plan::{
    Action, Answer, Applied, Call, FINALIZER, Step, View, action, differ, plan, plan_deleted,
    sync_again_after, with_finalizer, without_finalizer,
};
use crate::service::triggers::service_changed;

const DELETED: &str = "2026-01-01T00:00:00Z";

fn backends(text: &str) -> Backends {
    text.split_whitespace().map(|name| (name.into(), format!("acme://{name}").into())).collect()
}

#[test]
fn a_load_balancer_is_ensured_updated_or_deleted() {
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let deleting = json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": DELETED}});
    let never = json!({"metadata": {"deletionTimestamp": DELETED}});
    let internal = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}});
    let classed = json!({"spec": {"loadBalancerClass": "example.com/x"}});
    let port = json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"ports": [{"port": 81}]}});
    #[rustfmt::skip]
    let table = [
        // case                                 service     applied for        points to   nodes   action
        ("new",                                 &json!({}), None,              "",         "a b",  Action::Ensure),
        ("after a restart",                     &finalizer, None,              "",         "a b",  Action::Ensure),
        ("as it was",                           &finalizer, Some(&finalizer),  "a b",      "a b",  Action::Leave),
        ("undone by a restore of etcd",         &json!({}), Some(&finalizer),  "a b",      "a b",  Action::Ensure),
        ("one node more",                       &finalizer, Some(&finalizer),  "a",        "a b",  Action::UpdateNodes),
        ("no node left",                        &finalizer, Some(&finalizer),  "a",        "",     Action::UpdateNodes),
        ("another port",                        &port,      Some(&finalizer),  "a",        "a b",  Action::Ensure),
        ("deleted",                             &deleting,  Some(&finalizer),  "a",        "a b",  Action::CleanUp),
        ("deleted, after a restart",            &deleting,  None,              "",         "a b",  Action::CleanUp),
        ("deleted, and never had one",          &never,     None,              "",         "a b",  Action::Leave),
        ("not of this type any more",           &internal,  Some(&finalizer),  "a",        "a b",  Action::CleanUp),
        ("of another class",                    &classed,   None,              "",         "a b",  Action::CleanUp),
    ];
    for (case, wanted, made_for, points_to, nodes, want) in table {
        let current = service(wanted.clone());
        let applied = made_for.map(|made_for: &Value| Applied {
            service: Some(Arc::new(service(made_for.clone()))),
            backends: backends(points_to),
        });
        let view =
            View { service: &current, applied: applied.as_ref(), nodes: &[], backends: &backends(nodes) };
        assert_eq!(action(&view), want, "{case}");
        assert_eq!(invariants::check(&view), Ok(()), "{case}");
    }
}

#[test]
fn a_load_balancer_is_ensured_after_a_failure() {
    let current = service(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let failed = Applied { service: None, backends: backends("a") };
    let view = View { service: &current, applied: Some(&failed), nodes: &[], backends: &backends("a") };
    assert_eq!(action(&view), Action::Ensure);
}

fn failed(retry_after: Option<u64>) -> Answer {
    Answer::Failed { error: "down".to_owned(), retry_after: retry_after.map(Duration::from_secs) }
}

fn ensured() -> Answer {
    Answer::Ensured(serde_json::from_value(json!({"ingress": [{"ip": "192.0.2.1"}]})).unwrap())
}

fn show(steps: Vec<Step>) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The steps of a Service whose load balancer points to the node `a`, if it has one, after these answers.
fn steps(current: &Service, is_applied: bool, nodes: &[&str], answers: &[Answer]) -> String {
    let applied = Applied { service: Some(Arc::new(current.clone())), backends: backends("a") };
    let nodes: Vec<_> = nodes.iter().map(|name| Arc::new(super::node(name, json!({})))).collect();
    let backends = crate::service::backends::backends(&nodes);
    let applied = is_applied.then_some(&applied);
    show(plan(&View { service: current, applied, nodes: &nodes, backends: &backends }, answers))
}

const FAILURE: &str = "\
event Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to ensure load balancer: down";

#[test]
fn ensuring_sets_the_finalizer_first_and_the_status_last() {
    let (new, kept) = (service(json!({})), service(json!({"metadata": {"finalizers": [FINALIZER]}})));
    let call = "\
record Begun
event Normal EnsuringLoadBalancer: Ensuring load balancer
in sequence
  patch Service/status ns/s: its load balancer must be deleted before it
else event Warning SyncLoadBalancerFailed: Error syncing load balancer: <error>
call Ensure";
    assert_eq!(steps(&new, false, &["a"], &[]), call);
    let without_nodes = "\
record Begun
event Normal EnsuringLoadBalancer: Ensuring load balancer
event Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer
call Ensure";
    assert_eq!(steps(&kept, false, &[], &[]), without_nodes);
    let expected = "\
event Normal EnsuredLoadBalancer: Ensured load balancer
in sequence
  patch Service/status ns/s: the status of its load balancer has changed
else event Warning SyncLoadBalancerFailed: Error syncing load balancer: <error>
record Ensured";
    assert_eq!(steps(&kept, false, &["a"], &[ensured()]), expected);
    assert_eq!(steps(&kept, false, &["a"], &[Answer::ManagedElsewhere]), "record Ensured");
    assert_eq!(steps(&kept, false, &["a"], &[Answer::Gone]), "record Deleted");
    let retried = format!("{FAILURE}\nfail: failed to ensure load balancer: down");
    assert_eq!(steps(&kept, false, &["a"], &[failed(None)]), retried);
    assert_eq!(steps(&kept, false, &["a"], &[failed(Some(7))]), format!("{FAILURE}\nagain after 7s"));
}

#[test]
fn nodes_that_cannot_be_updated_lead_to_ensuring_at_once() {
    let kept = service(json!({"metadata": {"finalizers": [FINALIZER]}}));
    const FAILED: &str = "\
record UpdateFailed
event Warning UpdateLoadBalancerFailed: Error updating load balancer with new hosts [a b] [node names limited, total number of nodes: 2], error: down
again after 0ns";
    #[rustfmt::skip]
    let table: [(&str, &[&str], &[Answer], &str); 7] = [
        // case                   nodes        answers                                  steps
        ("at first",              &["a", "b"], &[],                                     "record Begun\ncall UpdateNodes"),
        ("updated",               &["a", "b"], &[Answer::Done],                         "event Normal UpdatedLoadBalancer: Updated load balancer with new hosts\nrecord Ensured"),
        ("updated to no nodes",   &[],         &[Answer::Done],                         "event Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer\nrecord Ensured"),
        ("managed elsewhere",     &["a", "b"], &[Answer::ManagedElsewhere],             "record Ensured"),
        ("failed",                &["a", "b"], &[failed(None)],                         "call Get"),
        ("failed, exists",        &["a", "b"], &[failed(None), Answer::Found(true)],    FAILED),
        ("failed, does not exist", &["a", "b"], &[failed(None), Answer::Found(false)],  "record Ensured"),
    ];
    for (case, nodes, answers, want) in table {
        assert_eq!(steps(&kept, true, nodes, answers), want, "{case}");
    }
    assert_eq!(steps(&kept, true, &["a", "b"], &[failed(None), failed(None)]), FAILED);
}

#[test]
fn the_finalizer_is_removed_after_the_load_balancer_is_deleted() {
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let metadata = json!({"finalizers": [FINALIZER], "deletionTimestamp": DELETED});
    let deleting = service(json!({"metadata": metadata, "status": status}));
    const DONE: &str = "\
in sequence
  patch Service/status ns/s: its load balancer is deleted
else event Warning SyncLoadBalancerFailed: Error syncing load balancer: <error>
record Deleted
event Normal DeletedLoadBalancer: Deleted load balancer
in sequence
  patch Service/status ns/s: the status of its load balancer has changed
else event Warning SyncLoadBalancerFailed: Error syncing load balancer: <error>";
    const UNKNOWN: &str = "\
event Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to check if load balancer exists before cleanup: down
fail: failed to check if load balancer exists before cleanup: down";
    const KEPT: &str = "\
event Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to delete load balancer: down
again after 7s";
    let found = || Answer::Found(true);
    #[rustfmt::skip]
    let table = [
        ("at first",          vec![],                                  "record Begun\ncall Get"),
        ("exists",            vec![found()],                           "event Normal DeletingLoadBalancer: Deleting load balancer\ncall Delete"),
        ("does not exist",    vec![Answer::Found(false)],              DONE),
        ("cannot be found",   vec![failed(None)],                      UNKNOWN),
        ("deleted",           vec![found(), Answer::Done],             DONE),
        ("managed elsewhere", vec![found(), Answer::ManagedElsewhere], DONE),
        ("not deleted",       vec![found(), failed(Some(7))],          KEPT),
    ];
    for (case, answers, want) in table {
        assert_eq!(steps(&deleting, true, &["a"], &answers), want, "{case}");
    }
}

#[test]
fn the_load_balancer_of_a_service_without_finalizer_is_deleted_after_it() {
    let (plain, internal) = (service(json!({})), service(json!({"spec": {"type": "ClusterIP"}})));
    const DELETING: &str = "event Normal DeletingLoadBalancer: Deleting load balancer\ncall Delete";
    const DONE: &str = "event Normal DeletedLoadBalancer: Deleted load balancer\nrecord Deleted";
    const FAILED: &str = "\
event Warning DeleteLoadBalancerFailed: Error deleting load balancer: down
fail: failed to delete load balancer: down";
    const ELSEWHERE: &str = "\
event Warning DeleteLoadBalancerFailed: Error deleting load balancer: implemented by alternate to cloud provider
fail: failed to delete load balancer: implemented by alternate to cloud provider";
    for answers in [vec![], vec![Answer::Done], vec![failed(None)], vec![Answer::ManagedElsewhere]] {
        let steps = plan_deleted(&plain, &answers);
        assert_eq!(invariants::check_deleted(&plain, &answers, &steps), Ok(()), "{answers:?}");
    }
    let too_early =
        invariants::check_deleted(&plain, &[failed(None)], &plan_deleted(&plain, &[Answer::Done]));
    assert!(too_early.unwrap_err().starts_with("a load balancer is remembered"));
    assert_eq!(show(plan_deleted(&internal, &[])), "record Deleted");
    assert_eq!(show(plan_deleted(&plain, &[])), DELETING);
    assert_eq!(show(plan_deleted(&plain, &[Answer::Done])), DONE);
    assert_eq!(show(plan_deleted(&plain, &[failed(None)])), FAILED);
    assert_eq!(show(plan_deleted(&plain, &[Answer::ManagedElsewhere])), ELSEWHERE);
}

#[test]
fn a_load_balancer_is_ensured_when_what_it_depends_on_changes() {
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
fn services_are_synced_when_they_are_created_or_deleted() {
    type Seen = Option<Arc<Service>>;
    let plain = || Arc::new(service(json!({})));
    let internal = || Arc::new(service(json!({"spec": {"type": "ClusterIP"}})));
    let pending =
        || Arc::new(service(json!({"metadata": {"finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}})));
    #[rustfmt::skip]
    let table: [(&str, Seen, Seen, bool); 6] = [
        ("created, asks for one",          None,             Some(plain()),    true),
        ("created, does not",              None,             Some(internal()), false),
        ("created, may have one",          None,             Some(pending()),     true),
        ("changed, may have one",          Some(pending()),     Some(pending()),     true),
        ("deleted, asks for one",          Some(plain()),    None,             true),
        ("deleted, does not",              Some(internal()), None,             false),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(service_changed(&change).is_some(), want, "{case}");
    }
}

#[test]
fn an_error_of_the_cloud_is_a_failure_unless_another_component_does_the_work() {
    let failed = |error: &str, after| Answer::Failed { error: error.to_owned(), retry_after: after };
    let (elsewhere, minute) = (|| CloudError::ImplementedElsewhere, Duration::from_secs(60));
    let wait = CloudError::RetryAfter { message: "busy".to_owned(), after: minute };
    #[rustfmt::skip]
    let table = [
        (Call::Ensure,       elsewhere(),                  Answer::ManagedElsewhere),
        (Call::UpdateNodes,  elsewhere(),                  Answer::ManagedElsewhere),
        (Call::Delete,       elsewhere(),                  Answer::ManagedElsewhere),
        (Call::Get,          elsewhere(),                  failed("implemented by alternate to cloud provider", None)),
        (Call::Delete,       wait,                         failed("busy", Some(minute))),
        (Call::Ensure,       CloudError::failed("quota"),  failed("quota", None)),
    ];
    for (call, error, want) in table {
        assert_eq!(Answer::of_error(call, &error), want, "{call:?} {error}");
    }
}

#[test]
fn only_a_clean_up_that_failed_is_synced_again_soon() {
    let bearing = service(json!({"metadata": {"finalizers": [FINALIZER]}}));
    let deleted = service(json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": DELETED}}));
    let soon = Some(Duration::from_secs(30));
    for (service, is_settled, want) in
        [(&deleted, false, soon), (&deleted, true, None), (&bearing, false, None), (&bearing, true, None)]
    {
        let view = View { service, applied: None, nodes: &[], backends: &Backends::new() };
        assert_eq!(sync_again_after(&view, is_settled), want, "{:?}, settled: {is_settled}", action(&view));
    }
}

#[test]
fn the_finalizer_is_patched_among_others() {
    let bare = service(json!({"metadata": {"finalizers": ["other"]}}));
    let bearing = service(json!({"metadata": {"finalizers": ["other", FINALIZER]}}));
    let order = json!(["other", FINALIZER]);
    let addition = json!({"uid": "u", "finalizers": [FINALIZER], "$setElementOrder/finalizers": order});
    assert_eq!(with_finalizer(&bare), Some(json!({"metadata": addition})));
    assert_eq!(with_finalizer(&bearing), None);
    let removal = json!({"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    assert_eq!(without_finalizer(&bearing), Some(removal));
    assert_eq!(without_finalizer(&bare), None);
}

proptest! {
    #[test]
    fn every_decision_keeps_the_invariants(
        kind in prop::sample::select(vec!["LoadBalancer", "ClusterIP", "NodePort"]),
        class in prop::option::of(Just("x")),
        has_finalizer in any::<bool>(),
        deleting in any::<bool>(),
        applied in prop::option::of((any::<bool>(), "(a )?(b )?")),
        nodes in "(a )?(b )?",
    ) {
        let finalizers: Vec<&str> = if has_finalizer { vec![FINALIZER] } else { vec![] };
        let current = service(json!({
            "metadata": {"finalizers": finalizers, "deletionTimestamp": deleting.then_some(DELETED)},
            "spec": {"type": kind, "loadBalancerClass": class},
        }));
        let applied = applied.map(|(ensured, points_to)| Applied {
            service: ensured.then(|| Arc::new(current.clone())),
            backends: backends(&points_to),
        });
        let backends = backends(&nodes);
        let view = View { service: &current, applied: applied.as_ref(), nodes: &[], backends: &backends };
        prop_assert_eq!(invariants::check(&view), Ok(()));
    }
}
