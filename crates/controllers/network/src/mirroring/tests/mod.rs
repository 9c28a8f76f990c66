//! Tables for mirrors.

mod properties;

use std::sync::Arc;

use flyball_api::{EndpointSlice, Endpoints};
use serde_json::{Value, json};

use super::plan::{Plan, View, is_mirrored, plan};

fn endpoints(subsets: Value) -> Endpoints {
    let metadata = json!({
        "name": "web", "namespace": "ns", "uid": "0b0f3a52-93ab-4c1e-8d0f-0123456789ab", "labels": {"mine": "yes"},
        "annotations": {
            "note": "x", "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    });
    serde_json::from_value(json!({"metadata": metadata, "subsets": subsets})).unwrap()
}

/// One subset from `ADDRESS ADDRESS! …:PORT`.
fn subset(text: &str) -> Value {
    let (addresses, port) = text.rsplit_once(':').unwrap();
    let ip = |text: &str| json!({"ip": text.trim_end_matches('!')});
    let (not_ready, ready): (Vec<&str>, Vec<&str>) =
        addresses.split_whitespace().partition(|text| text.ends_with('!'));
    json!({
        "addresses": ready.into_iter().map(ip).collect::<Vec<_>>(),
        "notReadyAddresses": not_ready.into_iter().map(ip).collect::<Vec<_>>(),
        "ports": [{"port": port.parse::<i32>().unwrap(), "protocol": "TCP"}],
    })
}

fn subsets(text: &str) -> Endpoints {
    let lines = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    endpoints(lines.map(subset).collect())
}

fn shown(slice: &EndpointSlice) -> String {
    let ready = |ready: Option<bool>| if ready == Some(true) { "" } else { "!" };
    let endpoints =
        slice.endpoints.iter().map(|e| format!("{}{}", e.addresses.join("+"), ready(e.conditions.ready)));
    let ports = slice.ports.iter().filter_map(|port| port.port).map(|port| port.to_string());
    format!("{}:{}", endpoints.collect::<Vec<_>>().join(" "), ports.collect::<String>())
}

fn told(plan: &Plan<'_>) -> String {
    let create = plan.create.iter().map(|slice| format!("create {}", shown(slice)));
    let update = plan.update.iter().map(|slice| format!("update {}: {}", slice.metadata.name, shown(slice)));
    let delete = plan.delete.iter().map(|slice| format!("delete {}", slice.metadata.name));
    create.chain(update).chain(delete).collect::<Vec<_>>().join("; ")
}

/// The slices that the server would hold after these were mirrored first, named `m0`, `m1` and so on.
fn mirrored(text: &str) -> Vec<Arc<EndpointSlice>> {
    let endpoints = subsets(text);
    let plan = plan(&View { endpoints: &endpoints, slices: &[], capacity: 1000 });
    let named = |(at, mut slice): (usize, EndpointSlice)| {
        slice.metadata.name = format!("m{at}").into();
        Arc::new(slice)
    };
    plan.create.into_iter().enumerate().map(named).collect()
}

#[test]
fn each_family_and_set_of_ports_has_one_slice() {
    #[rustfmt::skip]
    let table = [
        // case                          before                endpoints             plan
        ("first",                        "",                   "1.1.1.1 1.1.1.2!:80", "create 1.1.1.1 1.1.1.2!:80"),
        ("both families",                "",                   "1.1.1.1 fd00::1:80", "create 1.1.1.1:80; create fd00::1:80"),
        ("settled",                      "1.1.1.1 fd00::1:80", "1.1.1.1 fd00::1:80", ""),
        ("one more",                     "1.1.1.1:80",         "1.1.1.1 1.1.1.2:80", "update m0: 1.1.1.1 1.1.1.2:80"),
        ("no longer ready",              "1.1.1.1:80",         "1.1.1.1!:80",        "update m0: 1.1.1.1!:80"),
        ("another port uses the slice",  "1.1.1.1:80",         "1.1.1.1:81",         "update m0: 1.1.1.1:81"),
        ("another family does not",      "1.1.1.1:80",         "fd00::1:80",         "create fd00::1:80; delete m0"),
        ("a family goes",                "1.1.1.1 fd00::1:80", "1.1.1.1:80",         "delete m1"),
        ("all go",                       "1.1.1.1:80",         "",                   "delete m0"),
    ];
    for (case, before, text, want) in table {
        let (slices, endpoints) = (mirrored(before), subsets(text));
        let plan = plan(&View { endpoints: &endpoints, slices: &slices, capacity: 1000 });
        assert_eq!(told(&plan), want, "{case}");
    }
}

#[test]
fn what_cannot_be_shown_is_counted() {
    let endpoints = subsets("1.1.1.1 nonsense 1.1.1.2 1.1.1.3!:80");
    let plan = plan(&View { endpoints: &endpoints, slices: &[], capacity: 2 });
    assert_eq!(told(&plan), "create 1.1.1.1 1.1.1.2:80");
    assert_eq!(
        (plan.invalid, plan.skipped),
        (0, 2),
        "sorted, the address that is none comes after the limit"
    );
}

#[test]
fn a_mirror_carries_labels_and_notes_but_not_those_of_tools() {
    let slices = mirrored("1.1.1.1:80");
    let labels: Vec<_> = slices[0].metadata.labels.iter().collect();
    let want = [
        ("endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
        ("kubernetes.io/service-name", "web"),
        ("mine", "yes"),
    ];
    assert_eq!(labels, want);
    assert_eq!(slices[0].metadata.annotations.iter().collect::<Vec<_>>(), [("note", "x")]);
    assert_eq!(slices[0].metadata.owner_references[0].kind, "Endpoints");
}

#[test]
fn a_mirror_of_earlier_endpoints_is_taken_over() {
    let slices = mirrored("1.1.1.1:80");
    let mut endpoints = subsets("1.1.1.1:80");
    endpoints.metadata.uid = "1b0f3a52-93ab-4c1e-8d0f-0123456789ab".into();
    let plan = plan(&View { endpoints: &endpoints, slices: &slices, capacity: 1000 });
    assert_eq!(told(&plan), "update m0: 1.1.1.1:80");
}

#[test]
fn endpoints_may_opt_out() {
    let mut endpoints = subsets("");
    assert!(is_mirrored(&endpoints));
    endpoints.metadata.labels = [("endpointslice.kubernetes.io/skip-mirror", "true")].into_iter().collect();
    assert!(!is_mirrored(&endpoints));
    endpoints.metadata.labels = Default::default();
    endpoints.metadata.annotations =
        [("control-plane.alpha.kubernetes.io/leader", "{}")].into_iter().collect();
    assert!(!is_mirrored(&endpoints));
}
