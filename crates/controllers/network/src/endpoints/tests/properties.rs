//! Plans keep the invariants for any history of pods, and a second plan is empty.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Service};
use proptest::prelude::*;
use serde_json::json;

use super::super::invariants::{check, written};
use super::super::plan::{View, plan};

/// The state of a pod, and whether it is published by default and with `publishNotReadyAddresses`.
#[rustfmt::skip]
const STATES: [(&str, bool, bool); 6] = [
    // state          by default  all addresses
    ("ready",         true,       true),
    ("not ready",     true,       true),
    ("terminating",   false,      true),
    ("finished",      false,      false),
    ("without address",   false,      false),
    ("other family",  false,      false),
];

/// Pods of even number have the named port elsewhere; every third shares the address of its node.
fn pod(number: u8, state: &str) -> Arc<Pod> {
    let going = (state == "terminating").then_some("2026-01-01T00:00:00Z");
    let ip = match state {
        "other family" => format!("fd00::{number}"),
        _ if number.is_multiple_of(3) => "10.0.0.1".to_owned(),
        _ => format!("10.0.1.{number}"),
    };
    let ips = if state == "without address" { json!([]) } else { json!([{ "ip": ip }]) };
    let port = json!({"name": "http", "containerPort": 8080 + i32::from(number % 2), "protocol": "TCP"});
    let uid = format!("00000000-0000-0000-0000-0000000000{number:02}");
    let pod = json!({
        "metadata": {"name": format!("p{number}"), "namespace": "ns", "uid": uid, "deletionTimestamp": going},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "ports": [port]}]},
        "status": {
            "phase": if state == "finished" { "Succeeded" } else { "Running" },
            "podIPs": ips,
            "conditions": [{"type": "Ready", "status": if state == "not ready" { "False" } else { "True" }}],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn service(publishes_all: bool) -> Service {
    let service = json!({
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {
            "clusterIP": "10.9.9.9", "ipFamilies": ["IPv4"], "publishNotReadyAddresses": publishes_all,
            "ports": [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81}],
        },
    });
    serde_json::from_value(service).unwrap()
}

proptest! {
    #[test]
    fn every_history_ends_with_an_empty_plan(
        publishes_all: bool,
        rounds in prop::collection::vec(prop::collection::btree_map(0_u8..12, 0..STATES.len(), 0..12), 1..6),
    ) {
        let service = service(publishes_all);
        let mut current: Option<Endpoints> = None;
        for members in &rounds {
            let pods: Vec<_> = members.iter().map(|(number, state)| pod(*number, STATES[*state].0)).collect();
            let view =
                View { service: Some(&service), pods: &pods, current: current.as_ref(), trigger: None };
            let planned = plan(&view);
            prop_assert_eq!(check(&view, &planned), Ok(()));
            if let [write] = planned.writes().as_slice() {
                current = written(write);
            }
            let after = current.as_ref().expect("the first plan creates them");
            let mut published: Vec<_> = after
                .subsets
                .iter()
                .flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses))
                .filter_map(|address| address.target_ref.as_ref())
                .map(|target| target.name.to_string())
                .collect();
            published.sort_unstable();
            published.dedup();
            let is_wanted = |state: &usize| if publishes_all { STATES[*state].2 } else { STATES[*state].1 };
            let mut want: Vec<_> =
                members.iter().filter(|(_, state)| is_wanted(state)).map(|(n, _)| format!("p{n}")).collect();
            want.sort_unstable();
            prop_assert_eq!(published, want);
            let again = View { service: Some(&service), pods: &pods, current: Some(after), trigger: None };
            prop_assert_eq!(plan(&again).to_string(), "");
        }
    }
}
