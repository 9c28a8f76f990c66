//! Tables for mirrored slices and plans.

mod properties;

use std::sync::Arc;

use flyball_api::{EndpointSlice, Endpoints, Service};
use serde_json::{Value, json};

use super::mirror::{Mirror, mirror};
use super::plan::{View, is_mirrored, plan};

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

fn described(mirror: &Mirror<'_>) -> String {
    let create = mirror.create.iter().map(|slice| format!("create {}", shown(slice)));
    let update =
        mirror.update.iter().map(|slice| format!("update {}: {}", slice.metadata.name, shown(slice)));
    let delete = mirror.delete.iter().map(|slice| format!("delete {}", slice.metadata.name));
    create.chain(update).chain(delete).collect::<Vec<_>>().join("; ")
}

/// The slices that mirror these Endpoints, named `m0`, `m1` and so on.
fn mirrored(text: &str) -> Vec<Arc<EndpointSlice>> {
    let endpoints = subsets(text);
    let mirror = mirror(&endpoints, &[], 1000);
    let named = |(at, mut slice): (usize, EndpointSlice)| {
        slice.metadata.name = format!("m{at}").into();
        Arc::new(slice)
    };
    mirror.create.into_iter().enumerate().map(named).collect()
}

#[test]
fn each_family_and_set_of_ports_has_one_slice() {
    #[rustfmt::skip]
    let table = [
        // case                          before                endpoints             plan
        ("first",                        "",                   "1.1.1.1 1.1.1.2!:80", "create 1.1.1.1 1.1.1.2!:80"),
        ("both families",                "",                   "1.1.1.1 fd00::1:80", "create 1.1.1.1:80; create fd00::1:80"),
        ("up to date",                   "1.1.1.1 fd00::1:80", "1.1.1.1 fd00::1:80", ""),
        ("one more",                     "1.1.1.1:80",         "1.1.1.1 1.1.1.2:80", "update m0: 1.1.1.1 1.1.1.2:80"),
        ("no longer ready",              "1.1.1.1:80",         "1.1.1.1!:80",        "update m0: 1.1.1.1!:80"),
        ("a changed port, same slice",   "1.1.1.1:80",         "1.1.1.1:81",         "update m0: 1.1.1.1:81"),
        ("another family",               "1.1.1.1:80",         "fd00::1:80",         "create fd00::1:80; delete m0"),
        ("a family is removed",          "1.1.1.1 fd00::1:80", "1.1.1.1:80",         "delete m1"),
        ("all addresses are removed",    "1.1.1.1:80",         "",                   "delete m0"),
    ];
    for (case, before, text, want) in table {
        let (slices, endpoints) = (mirrored(before), subsets(text));
        assert_eq!(described(&mirror(&endpoints, &slices, 1000)), want, "{case}");
    }
}

#[test]
fn endpoints_are_counted_as_removed_while_a_subset_has_their_ports() {
    #[rustfmt::skip]
    let table = [
        // case                        before                 endpoints       added, updated, removed
        ("one of two",                 "1.1.1.1 1.1.1.2:80",  "1.1.1.1:80",   (0, 0, 1)),
        ("all of one family",          "1.1.1.1 fd00::1:80",  "1.1.1.1:80",   (0, 0, 1)),
        ("the port has changed",       "1.1.1.1 1.1.1.2:80",  "1.1.1.1:81",   (1, 0, 0)),
        ("nothing is left",            "1.1.1.1:80",          "",             (0, 0, 0)),
    ];
    for (case, before, text, want) in table {
        let (slices, endpoints) = (mirrored(before), subsets(text));
        let totals = mirror(&endpoints, &slices, 1000).totals;
        assert_eq!((totals.added, totals.updated, totals.removed), want, "{case}");
    }
}

#[test]
fn a_mirrored_endpoint_refers_to_its_pod_as_the_endpoints_do() {
    let mut subset = subset("1.1.1.1:80");
    subset["addresses"][0]["targetRef"] = json!({"kind": "Pod", "name": "p", "resourceVersion": "77"});
    let endpoints = endpoints(json!([subset]));
    let mirror = mirror(&endpoints, &[], 1000);
    let target = mirror.create[0].endpoints[0].target_ref.as_ref();
    assert_eq!(serde_json::to_value(target).unwrap()["resourceVersion"], "77");
}

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec})).unwrap()
}

/// The plan for Endpoints with a limit of two addresses per subset.
fn planned(
    endpoints: Option<&Endpoints>,
    service: Option<&Service>,
    slices: &[Arc<EndpointSlice>],
) -> String {
    let view = View { endpoints, service, slices, capacity: 2 };
    plan(&view, view.mirror().as_ref()).to_string()
}

#[test]
fn a_plan_creates_updates_and_deletes_slices_in_this_order() {
    let service = service(json!({}));
    let (mut endpoints, slices) = (subsets("1.1.1.1:80; fd00::1:81"), mirrored("1.1.1.1!:80; 2.2.2.2:82"));
    let write = "\
in sequence
  create EndpointSlice ns/web-*: no slice has these ports yet
  update EndpointSlice ns/m0: the Endpoints have changed
  delete EndpointSlice ns/m1: the Endpoints have none of its addresses";
    assert_eq!(planned(Some(&endpoints), Some(&service), &slices), write);
    endpoints.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let without_create: Vec<_> = write.lines().filter(|line| !line.contains("create")).collect();
    assert_eq!(planned(Some(&endpoints), Some(&service), &slices), without_create.join("\n"));
}

#[test]
fn all_slices_are_deleted_when_there_is_nothing_to_mirror() {
    let (plain, selecting) = (service(json!({})), service(json!({"selector": {"app": "web"}})));
    let (endpoints, slices) = (subsets("1.1.1.1:80"), mirrored("1.1.1.1 fd00::1:80"));
    let mut opted_out = endpoints.clone();
    opted_out.metadata.labels = [("endpointslice.kubernetes.io/skip-mirror", "true")].into_iter().collect();
    let delete = "\
each
  delete EndpointSlice ns/m0: there is nothing to mirror
  delete EndpointSlice ns/m1: there is nothing to mirror";
    assert_eq!(planned(None, Some(&plain), &slices), delete, "no Endpoints");
    assert_eq!(planned(Some(&endpoints), None, &slices), delete, "no Service");
    assert_eq!(planned(Some(&endpoints), Some(&selecting), &slices), delete, "a selector");
    assert_eq!(planned(Some(&opted_out), Some(&plain), &slices), delete, "opted out");
    assert_eq!(planned(None, None, &[]), "");
}

#[test]
fn events_report_addresses_that_are_not_mirrored() {
    let invalid =
        "event Warning InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices";
    let skipped = "event Warning TooManyAddressesToMirror: A max of 2 addresses can be mirrored to EndpointSlices per \
                   Endpoints subset. 2 addresses were skipped";
    let create = "in sequence\n  create EndpointSlice ns/web-*: no slice has these ports yet";
    #[rustfmt::skip]
    let table = [
        // case                                        endpoints                               plan
        ("none",                                       "1.1.1.1:80",                           create.to_owned()),
        ("an invalid one",                             "1.1.1.1 nonsense:80",                  format!("{invalid}\n{create}")),
        ("beyond the limit, before the invalid one",   "1.1.1.1 nonsense 1.1.1.2 1.1.1.3!:80", format!("{skipped}\n{create}")),
    ];
    for (case, text, want) in table {
        assert_eq!(planned(Some(&subsets(text)), Some(&service(json!({}))), &[]), want, "{case}");
    }
    let endpoints = subsets("1.1.1.1 nonsense 1.1.1.2 1.1.1.3!:80");
    let mirror = mirror(&endpoints, &[], 2);
    assert_eq!(described(&mirror), "create 1.1.1.1 1.1.1.2:80");
    assert_eq!((mirror.invalid, mirror.skipped), (0, 2), "sorted, the invalid address is beyond the limit");
}

#[test]
fn slices_get_the_labels_and_annotations_of_the_endpoints_but_not_those_of_tools() {
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
fn slices_of_earlier_endpoints_are_updated() {
    let slices = mirrored("1.1.1.1:80");
    let mut endpoints = subsets("1.1.1.1:80");
    endpoints.metadata.uid = "1b0f3a52-93ab-4c1e-8d0f-0123456789ab".into();
    assert_eq!(described(&mirror(&endpoints, &slices, 1000)), "update m0: 1.1.1.1:80");
}

#[test]
fn endpoints_that_opt_out_or_serve_leader_election_are_not_mirrored() {
    let mut endpoints = subsets("");
    assert!(is_mirrored(&endpoints));
    endpoints.metadata.labels = [("endpointslice.kubernetes.io/skip-mirror", "true")].into_iter().collect();
    assert!(!is_mirrored(&endpoints));
    endpoints.metadata.labels = Default::default();
    endpoints.metadata.annotations =
        [("control-plane.alpha.kubernetes.io/leader", "{}")].into_iter().collect();
    assert!(!is_mirrored(&endpoints));
}
