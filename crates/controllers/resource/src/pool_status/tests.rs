//! What is told, and for how long it is kept.

use std::sync::Arc;

use flyball_api::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice, Timestamp};
use serde_json::{Value, json};

use super::plan::{answer, reason_to_delete};

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn request(spec: Value) -> ResourcePoolStatusRequest {
    serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": spec})).unwrap()
}

/// A slice of a pool: its generation, of how many slices, on which node, with how many devices.
fn slice(pool: &str, generation: i64, of: i64, node: &str, devices: usize) -> Arc<ResourceSlice> {
    let devices: Vec<Value> = (0..devices).map(|n| json!({"name": format!("d{n}")})).collect();
    let pool = json!({"name": pool, "generation": generation, "resourceSliceCount": of});
    let mut spec = json!({"driver": "gpu", "pool": pool, "devices": devices});
    if !node.is_empty() {
        spec["nodeName"] = json!(node);
    }
    serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
}

fn claim(devices: &[(&str, &str)]) -> Arc<ResourceClaim> {
    let results: Vec<Value> = devices
        .iter()
        .map(|(driver, pool)| json!({"driver": driver, "pool": pool, "device": "d0", "request": "r"}))
        .collect();
    let allocation = json!({"devices": {"results": results}});
    serde_json::from_value(json!({"metadata": {"name": "c"}, "status": {"allocation": allocation}})).unwrap()
}

/// `pool@node generation slices total/allocated/available`, one for each.
fn told(status: Option<Value>) -> String {
    let Some(status) = status else { return "waits".to_owned() };
    let pools = status["pools"].as_array().cloned().unwrap_or_default();
    let shown = pools.iter().map(|pool| {
        let text = |name: &str| pool[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| pool[name].as_i64().unwrap_or(-1);
        format!(
            "{}@{} g{} s{} {}/{}/{}",
            text("poolName"),
            text("nodeName"),
            number("generation"),
            number("resourceSliceCount"),
            number("totalDevices"),
            number("allocatedDevices"),
            number("availableDevices"),
        )
    });
    let list: Vec<String> = shown.collect();
    format!("{}: {}", status["poolCount"], list.join(", "))
}

#[test]
fn pools_are_told_with_what_is_left_of_them() {
    let gpu = || json!({"driver": "gpu"});
    #[rustfmt::skip]
    let table = [
        // case                  asked                                   slices                                                        told
        ("nothing",              gpu(),                                  vec![],                                                       "0: "),
        ("one pool",             gpu(),                                  vec![slice("a", 1, 1, "n", 4)],                               "1: a@n g1 s1 4/2/2"),
        ("two slices, two nodes", gpu(),                                 vec![slice("a", 1, 2, "n", 4), slice("a", 1, 2, "m", 1)],     "1: a@- g1 s2 5/2/3"),
        ("an old generation",    gpu(),                                  vec![slice("a", 1, 1, "n", 4), slice("a", 2, 1, "n", 1)],     "1: a@n g2 s1 1/2/0"),
        ("half a pool",          gpu(),                                  vec![slice("a", 1, 2, "n", 4)],                               "waits"),
        ("another pool",         json!({"driver": "gpu", "poolName": "b"}), vec![slice("a", 1, 2, "n", 4), slice("b", 1, 1, "", 3)],   "1: b@- g1 s1 3/0/3"),
        ("another driver",       json!({"driver": "nic"}),               vec![slice("a", 1, 1, "n", 4)],                               "0: "),
        ("no more than asked",   json!({"driver": "gpu", "limit": 1}),   vec![slice("b", 1, 2, "n", 1), slice("a", 1, 1, "n", 1)],     "2: a@n g1 s1 1/2/0"),
    ];
    let claims = [claim(&[("gpu", "a"), ("gpu", "a"), ("nic", "a")])];
    for (case, asked, slices, want) in table {
        assert_eq!(told(answer(&request(asked), &slices, &claims, now())), want, "{case}");
    }
}

#[test]
fn answers_go_after_an_hour_and_questions_after_a_day() {
    let at = |made: &str, told: Option<Value>| {
        let mut object = json!({"metadata": {"name": "q", "creationTimestamp": made}});
        if let Some(told) = told {
            object["status"] = json!({"conditions": told});
        }
        serde_json::from_value::<ResourcePoolStatusRequest>(object).unwrap()
    };
    let complete =
        |when: &str| Some(json!([{"type": "Complete", "status": "True", "lastTransitionTime": when}]));
    #[rustfmt::skip]
    let table = [
        ("asked",               at("2026-03-09T13:00:00Z", None),                               false),
        ("never answered",      at("2026-03-09T11:00:00Z", None),                               true),
        ("answered",            at("2026-03-01T00:00:00Z", complete("2026-03-10T11:30:00Z")),   false),
        ("answered long ago",   at("2026-03-01T00:00:00Z", complete("2026-03-10T10:30:00Z")),   true),
        ("answered by nothing", at("2026-03-01T00:00:00Z", Some(json!([]))),                    true),
    ];
    for (case, request, want) in table {
        assert_eq!(reason_to_delete(&request, now()).is_some(), want, "{case}");
    }
}
