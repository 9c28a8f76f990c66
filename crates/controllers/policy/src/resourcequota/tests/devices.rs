use flyball_api::pod::Pod;
use flyball_api::{DeviceClass, ResourceClaim};
use serde_json::{Value, json};

use super::world::{ALL, now, shown};
use crate::resourcequota::usage::device_claims::Claims;
use crate::resourcequota::usage::{Id, Objects, Source, Sources};

const IMPLIED: &str = "requests.deviceclass.resource.kubernetes.io/gpu";
const EXTENDED: &str = "requests.example.com/gpu";
const DEVICES: &str = "gpu.deviceclass.resource.k8s.io/devices";

fn claim(name: &str, requests: Value, made_for: &str) -> ResourceClaim {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"devices": {"requests": requests}},
    });
    if !made_for.is_empty() {
        let metadata = &mut claim["metadata"];
        metadata["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        metadata["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made_for, "controller": true}]);
    }
    serde_json::from_value(claim).unwrap()
}

fn exactly(class: &str, mode: &str, count: i64) -> Value {
    json!({"name": "r", "exactly": {"deviceClassName": class, "allocationMode": mode, "count": count}})
}

fn wish(class: &str, mode: &str, count: i64) -> Value {
    json!({"name": "s", "deviceClassName": class, "allocationMode": mode, "count": count})
}

/// Class `gpu` stands for `example.com/gpu`, class `nic` for nothing.
fn world(claims: Vec<ResourceClaim>, pods: Vec<Value>) -> Claims {
    let class = |name: &str, extended: Value| -> DeviceClass {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"extendedResourceName": extended}}),
        )
        .unwrap()
    };
    let pods = pods.into_iter().map(|pod| serde_json::from_value::<Pod>(pod).unwrap());
    let classes = [class("gpu", json!("example.com/gpu")), class("nic", Value::Null)];
    Claims {
        claims: claims.into_iter().collect(),
        extended: Some((pods.collect(), classes.into_iter().collect())),
    }
}

/// A pod that requests one `example.com/gpu` itself.
fn pod(status: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n", "uid": "u1"}, "status": status,
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}})
}

#[test]
fn claims_take_devices_of_a_class() {
    #[rustfmt::skip]
    let table = [
        // case                          requests                                                           devices
        ("so many",                      json!([exactly("gpu", "ExactCount", 2)]),                          "2"),
        ("of another class",             json!([exactly("nic", "ExactCount", 2)]),                          "0"),
        ("all there are",                json!([exactly("gpu", "All", 0)]),                                 "32"),
        ("in a way of tomorrow",         json!([exactly("gpu", "Some", 5)]),                                "0"),
        ("twice",                        json!([exactly("gpu", "ExactCount", 2), exactly("gpu", "ExactCount", 3)]), "5"),
        ("the worst of alternatives",    json!([{"name": "r", "firstAvailable": [wish("gpu", "ExactCount", 2), wish("gpu", "ExactCount", 4), wish("nic", "All", 0)]}]), "4"),
        ("nothing known",                json!([{"name": "r"}]),                                            "0"),
    ];
    for (case, requests, want) in table {
        let claims = world(vec![claim("a", requests, "")], vec![]);
        let used = claims.usage("n", &[DEVICES, "count/resourceclaims.resource.k8s.io"], ALL, now());
        assert_eq!(
            shown(&used),
            format!("count/resourceclaims.resource.k8s.io=1 {DEVICES}={want}"),
            "{case}"
        );
    }
}

#[test]
fn of_claims_made_for_a_pod_only_what_goes_beyond_it_is_charged() {
    let two = || json!([exactly("gpu", "ExactCount", 2)]);
    #[rustfmt::skip]
    let table = [
        // case                                claims                                           pods                                                                extended
        ("by hand",                            vec![claim("a", two(), "")],                     vec![pod(json!({}))],                                               "2"),
        ("for the pod",                        vec![claim("a", two(), "u1")],                   vec![pod(json!({}))],                                               "1"),
        ("for a pod of that name",             vec![claim("a", two(), "u0")],                   vec![pod(json!({}))],                                               "2"),
        ("for a pod that is gone",             vec![claim("a", two(), "u1")],                   vec![],                                                             "2"),
        ("for a pod that has ended",           vec![claim("a", two(), "u1")],                   vec![pod(json!({"phase": "Failed"}))],                              "2"),
        ("the pod names it",                   vec![claim("a", two(), "u1")],                   vec![pod(json!({"extendedResourceClaimStatus": {"resourceClaimName": "a"}}))], "1"),
        ("the pod names another",              vec![claim("a", two(), "u1")],                   vec![pod(json!({"extendedResourceClaimStatus": {"resourceClaimName": "b"}}))], "2"),
        ("two, of which the first counts",     vec![claim("a", two(), "u1"), claim("b", two(), "u1")], vec![pod(json!({}))],                                        "3"),
    ];
    for (case, claims, pods, want) in table {
        let used = world(claims, pods).usage("n", &[EXTENDED], ALL, now());
        assert_eq!(shown(&used), format!("{EXTENDED}={want}"), "{case}");
    }
    let used = world(vec![claim("a", two(), "u1")], vec![pod(json!({}))]).usage("n", &[IMPLIED], ALL, now());
    assert_eq!(shown(&used), format!("{IMPLIED}=2"), "the pod did not ask for it by this name");
}

#[test]
fn words_for_extended_resources_need_a_class() {
    let claims = world(vec![], vec![]);
    #[rustfmt::skip]
    let table = [
        (EXTENDED,                                                true),
        ("requests.example.com/other",                            false),
        (IMPLIED,                                                 true),
        ("requests.deviceclass.resource.kubernetes.io/nic",       true),
        ("requests.deviceclass.resource.kubernetes.io/other",     false),
        ("other.deviceclass.resource.k8s.io/devices",             true),
        ("pods",                                                  false),
    ];
    for (name, want) in table {
        assert_eq!(claims.measure(name), want, "{name}");
    }
    let off = Claims { extended: None, ..claims };
    assert!(!off.measure(EXTENDED) && !off.measure(IMPLIED) && off.measure(DEVICES));
}

#[test]
fn devices_of_a_class_that_does_not_exist_count_if_the_quota_measures_claims_by_another_name() {
    const LATE: &str = "late.deviceclass.resource.k8s.io/devices";
    const IMPLIED_LATE: &str = "requests.deviceclass.resource.kubernetes.io/late";
    const OTHER: &str = "requests.example.com/other";
    #[rustfmt::skip]
    let table = [
        // limits                         extended  used
        (vec![LATE, IMPLIED_LATE],        true,     format!("{LATE}=2 {IMPLIED_LATE}=2")),
        (vec![LATE, IMPLIED_LATE, OTHER], true,     format!("{LATE}=2 {IMPLIED_LATE}=2")),
        (vec![IMPLIED_LATE],              true,     String::new()), // measured with the pods
        (vec![LATE, IMPLIED_LATE],        false,    format!("{LATE}=2")),
    ];
    for (limits, is_extended, want) in table {
        let mut claims = world(vec![claim("a", json!([exactly("late", "ExactCount", 2)]), "")], vec![]);
        claims.extended = claims.extended.filter(|_| is_extended);
        let id: Id = ("resource.k8s.io".into(), "resourceclaims".into());
        let mut sources = Sources::default();
        sources.put(id.clone(), Source::new(&id, Objects::DeviceClaims(claims), || true));
        let hard: Value = limits.iter().map(|name| ((*name).to_owned(), json!("9"))).collect();
        let quota = json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": hard}});
        let quota = serde_json::from_value(quota).unwrap();
        assert_eq!(shown(&sources.usage(&quota, ALL, now()).used), want, "{limits:?} {is_extended}");
    }
}
