use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::world::{claim, now, pod_with, quota, service};
use crate::resourcequota::triggers::{
    Urgency, claim_uses_less, pod_uses_less, quota_changed, service_uses_less,
};

fn change<'a, T>(old: &'a Option<Arc<T>>, new: &'a Option<Arc<T>>) -> Change<'a, T> {
    Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch }
}

#[test]
fn quotas_without_a_status_go_first() {
    let settled = || Some(quota("pods=5", "pods=5", "pods=1"));
    #[rustfmt::skip]
    let table = [
        // case                       before      after                                              looked at
        ("new",                       None,       Some(quota("pods=5", "", "")),                     Some(Urgency::Missing)),
        ("seen at the start",         None,       settled(),                                         Some(Urgency::Routine)),
        ("usage unknown",             None,       Some(quota("pods=5", "pods=5", "")),               Some(Urgency::Missing)),
        ("usage unknowable",          None,       Some(quota("count/x.y=5", "count/x.y=5", "")),     Some(Urgency::Routine)),
        ("other limits",              settled(),  Some(quota("pods=6", "pods=5", "pods=1")),         Some(Urgency::Missing)),
        ("the status moved",          settled(),  Some(quota("pods=5", "pods=5", "pods=2")),         None),
        ("gone",                      settled(),  None,                                              None),
    ];
    for (case, old, new, want) in table {
        let got = quota_changed(&change(&old, &new), |name| name == "pods");
        assert_eq!(got.map(|(_, urgency)| urgency), want, "{case}");
    }
}

fn pod(spec: Value, status: Value) -> Option<Arc<Pod>> {
    Some(pod_with(spec, status))
}

#[test]
fn pods_give_back_when_they_end_move_or_shrink() {
    let running = || pod(json!({}), json!({"phase": "Running"}));
    let given = |cpu: &str| {
        pod(
            json!({}),
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}),
        )
    };
    #[rustfmt::skip]
    let table = [
        // case                        before       after                                                    gave back
        ("made",                       None,        running(),                                               false),
        ("started",                    pod(json!({}), json!({"phase": "Pending"})), running(),               false),
        ("ended",                      running(),   pod(json!({}), json!({"phase": "Succeeded"})),           true),
        ("failed",                     running(),   pod(json!({}), json!({"phase": "Failed"})),              true),
        ("had ended",                  pod(json!({}), json!({"phase": "Failed"})), pod(json!({}), json!({"phase": "Failed", "reason": "x"})), false),
        ("gone",                       running(),   None,                                                    true),
        ("given a deadline",           running(),   pod(json!({"activeDeadlineSeconds": 1}), json!({"phase": "Running"})), true),
        ("resized",                    given("1"),  given("2"),                                              true),
        ("not resized",                given("1"),  given("1"),                                              false),
    ];
    for (case, old, new, want) in table {
        assert_eq!(pod_uses_less(&change(&old, &new), true, now()), want, "{case}");
    }
    assert!(!pod_uses_less(&change(&given("1"), &given("2")), false, now()));
}

#[test]
fn services_give_back_when_their_type_changes() {
    let of = |type_: &str| Some(service(json!({"type": type_})));
    #[rustfmt::skip]
    let table = [
        ("made",                   None,               of("NodePort"),      false),
        ("no longer on nodes",     of("NodePort"),     of("ClusterIP"),     true),
        ("balanced",               of("NodePort"),     of("LoadBalancer"),  true),
        ("unchanged",              of("NodePort"),     of("NodePort"),      false),
        ("renamed outside",        of("ClusterIP"),    of("ExternalName"),  false),
        ("gone",                   of("ClusterIP"),    None,                true),
    ];
    for (case, old, new, want) in table {
        assert_eq!(service_uses_less(&change(&old, &new)), want, "{case}");
    }
}

#[test]
fn any_change_of_a_claim_may_give_bytes_back() {
    let at = |version: u64| {
        let mut claim = flyball_api::PersistentVolumeClaim::clone(&claim(json!({}), json!({})));
        claim.metadata.resource_version = flyball_api::ResourceVersion(version);
        Some(Arc::new(claim))
    };
    for (old, new, want) in
        [(None, at(1), false), (at(1), at(2), true), (at(2), at(2), false), (at(2), None, true)]
    {
        assert_eq!(claim_uses_less(&change(&old, &new)), want);
    }
}
