//! Tables for subsets, truncation and plans.

mod properties;

use std::sync::Arc;

use flyball_api::endpoints::{EndpointAddress, EndpointPort, EndpointSubset};
use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Service};
use flyball_runtime::Plan;
use serde_json::{Value, json};

use super::invariants::written;
use super::plan::{View, plan};
use super::subsets::{CAPACITY, Offer, pack, truncate, unpack};

fn offer(text: &str) -> Offer {
    let (address, port) = text.split_once(':').unwrap_or((text, ""));
    let (ip, ready) = address.strip_suffix('!').map_or((address, true), |ip| (ip, false));
    let port = port.parse().ok().map(|port| EndpointPort { port, ..EndpointPort::default() });
    Offer { address: EndpointAddress { ip: ip.into(), ..EndpointAddress::default() }, ready, port }
}

fn shown(subsets: &[EndpointSubset]) -> String {
    let subset = |subset: &EndpointSubset| {
        let ready = subset.addresses.iter().map(|address| address.ip.to_string());
        let not_ready = subset.not_ready_addresses.iter().map(|address| format!("{}!", address.ip));
        let addresses: Vec<_> = ready.chain(not_ready).collect();
        let ports: Vec<_> = subset.ports.iter().map(|port| port.port.to_string()).collect();
        format!("{}:{}", addresses.join("+"), ports.join("+"))
    };
    subsets.iter().map(subset).collect::<Vec<_>>().join(" ")
}

#[test]
fn addresses_with_the_same_ports_share_a_subset() {
    #[rustfmt::skip]
    let table = [
        // offers                    subsets
        ("",                         ""),
        ("b:1 a:1",                  "a+b:1"),
        ("a:2 a:1 b:1 b:2",          "a+b:1+2"),
        ("a:1 b:2",                  "a:1 b:2"),
        ("a:1 b!:1",                 "a+b!:1"),
        ("a a!",                     "a!:"),
        ("a:1 a!:1",                 "a!:1"),
        ("a b",                      "a+b:"),
        ("a:1 a!:2",                 "a!:2 a:1"),
    ];
    for (offers, want) in table {
        let packed = pack(offers.split_whitespace().map(offer));
        assert_eq!(shown(&packed), want, "{offers}");
        assert_eq!(pack(unpack(&packed)), packed, "{offers}: packed again");
    }
}

#[test]
fn addresses_that_are_not_ready_are_truncated_first_and_in_proportion() {
    #[rustfmt::skip]
    let table = [
        // ready and not ready of each subset   after                       cut
        ([(600, 400), (0, 0)],                  [(600, 400), (0, 0)],       false),
        ([(600, 500), (0, 0)],                  [(600, 400), (0, 0)],       true),
        ([(400, 400), (400, 400)],              [(400, 100), (400, 100)],   true),
        ([(1003, 0), (0, 0)],                   [(1000, 0), (0, 0)],        true),
        ([(1500, 9), (500, 9)],                 [(750, 0), (250, 0)],       true),
        ([(1001, 1), (1, 1)],                   [(1000, 0), (0, 0)],        true),
    ];
    for (before, after, want) in table {
        let addresses = |count: usize| vec![EndpointAddress::default(); count];
        let subset = |(ready, not_ready): (usize, usize)| EndpointSubset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: vec![],
        };
        let mut subsets = before.map(subset);
        assert_eq!(truncate(&mut subsets), want, "{before:?}");
        let got = subsets.map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()));
        assert_eq!(got, after, "{before:?}");
        assert!(got.iter().map(|(ready, not_ready)| ready + not_ready).sum::<usize>() <= CAPACITY);
    }
}

fn service(spec: Value) -> Service {
    let metadata = json!({"name": "web", "namespace": "ns", "labels": {"tier": "front"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn pod(name: &str, status: Value) -> Arc<Pod> {
    let metadata = json!({"name": name, "namespace": "ns"});
    let spec = json!({"nodeName": "lost", "hostname": "h", "subdomain": "web"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap())
}

fn ready(ips: &[&str]) -> Value {
    let ips: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"podIPs": ips, "conditions": [{"type": "Ready", "status": "True"}]})
}

fn planned(service: &Service, pods: &[Arc<Pod>], current: Option<&Endpoints>) -> Plan {
    plan(&View { service: Some(service), pods, current, trigger: None })
}

/// The Endpoints that the only write of a plan sends.
fn sent(plan: &Plan) -> Endpoints {
    written(plan.writes()[0]).unwrap()
}

#[test]
fn the_first_family_of_a_service_is_published_even_from_unknown_nodes() {
    let pods = [pod("a", ready(&["10.0.0.1", "fd00::1"]))];
    for (families, want) in [(json!(["IPv4", "IPv6"]), "10.0.0.1:80"), (json!(["IPv6"]), "fd00::1:80")] {
        let service = service(json!({"clusterIP": "1", "ipFamilies": families, "ports": [{"port": 80}]}));
        let endpoints = sent(&planned(&service, &pods, None));
        assert_eq!(shown(&endpoints.subsets), want);
        assert_eq!(endpoints.subsets[0].addresses[0].node_name.as_deref(), Some("lost"));
        assert_eq!(endpoints.subsets[0].addresses[0].hostname, "h");
    }
}

#[test]
fn an_address_of_a_pod_without_a_node_has_an_empty_node_name() {
    let metadata = json!({"name": "a", "namespace": "ns"});
    let pod = json!({"metadata": metadata, "spec": {}, "status": ready(&["10.0.0.1"])});
    let pods = [Arc::new(serde_json::from_value(pod).unwrap())];
    let service = service(json!({"clusterIP": "1", "ports": [{"port": 80}]}));
    let endpoints = sent(&planned(&service, &pods, None));
    let address = serde_json::to_value(&endpoints.subsets[0].addresses[0]).unwrap();
    assert_eq!(address["nodeName"], "");
}

const CREATE: &str = "\
create Endpoints ns/web: the Service has no Endpoints
  else event Warning FailedToCreateEndpoint: Failed to create endpoint for service ns/web: <error> (Endpoints web)";
const UPDATE: &str = "\
update Endpoints ns/web: addresses, ports or labels have changed
  else event Warning FailedToUpdateEndpoint: Failed to update endpoint ns/web: <error> (Endpoints web)";

#[test]
fn endpoints_are_written_only_when_they_change() {
    let service = service(json!({"clusterIP": "10.9.9.9", "ports": [{"port": 80}]}));
    let pods: &[Arc<Pod>] = &[pod("a", ready(&["10.0.0.1"]))];
    let creation = planned(&service, pods, None);
    assert_eq!(creation.to_string(), CREATE);
    let created = sent(&creation);
    let labels_without = |label: &str| {
        let mut changed = created.clone();
        changed.metadata.labels = changed.metadata.labels.without(label);
        changed
    };
    let mut annotated = created.clone();
    annotated.metadata.annotations =
        [("endpoints.kubernetes.io/over-capacity", "truncated")].into_iter().collect();
    let none: &[Arc<Pod>] = &[];
    #[rustfmt::skip]
    let table = [
        // case                       pods       current                   subsets        plan
        ("up to date",                pods,      &created,                 "10.0.0.1:80", ""),
        ("a label is missing",        pods,      &labels_without("tier"),  "10.0.0.1:80", UPDATE),
        ("annotated as truncated",    pods,      &annotated,               "10.0.0.1:80", UPDATE),
        ("the pod is gone",           none,      &created,                 "",            UPDATE),
    ];
    for (case, pods, current, subsets, want) in table {
        let plan = planned(&service, pods, Some(current));
        assert_eq!(plan.to_string(), want, "{case}");
        for after in plan.writes().into_iter().filter_map(written) {
            assert_eq!(shown(&after.subsets), subsets, "{case}");
            assert_eq!(after.metadata.labels, created.metadata.labels, "{case}");
            assert!(after.metadata.annotations.is_empty(), "{case}");
        }
    }
    let view = View { service: None, pods: &[], current: Some(&created), trigger: None };
    assert_eq!(plan(&view).to_string(), "delete Endpoints ns/web: the Service is gone");
    assert_eq!(plan(&View { current: None, ..view }).to_string(), "");
}

#[test]
fn truncated_endpoints_that_are_up_to_date_are_not_written() {
    let service = service(json!({"clusterIP": "None"}));
    let pods: Vec<_> = (0..1003)
        .map(|number| {
            pod(&format!("p{number}"), ready(&[&format!("10.0.{}.{}", number / 250, number % 250)]))
        })
        .collect();
    let created = sent(&planned(&service, &pods, None));
    assert_eq!(created.subsets[0].addresses.len(), CAPACITY);
    assert_eq!(created.metadata.annotations.get("endpoints.kubernetes.io/over-capacity"), Some("truncated"));
    assert_eq!(planned(&service, &pods, Some(&created)).to_string(), "");
}
