//! Answers, and when requests are deleted.

use std::sync::Arc;

use flyball_api::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice, Timestamp};
use flyball_runtime::Plan;
use serde_json::{Value, json};

use super::expiry;
use super::plan::{View, plan};

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn request(spec: Value) -> ResourcePoolStatusRequest {
    serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": spec})).unwrap()
}

/// A slice of a pool, with its generation, the number of slices of the pool, the node and the number of devices.
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

/// The number of pools, then `pool@node generation slices total/allocated/available` for each.
fn shown(plan: &Plan) -> String {
    let Some(write) = &plan.status else { return plan.to_string() };
    let status = write.body().unwrap()["status"].clone();
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
fn the_answer_counts_the_devices_of_each_pool() {
    let gpu = || json!({"driver": "gpu"});
    #[rustfmt::skip]
    let table = [
        // case                  spec                                    slices                                                        answer
        ("no slices",            gpu(),                                  vec![],                                                       "0: "),
        ("one pool",             gpu(),                                  vec![slice("a", 1, 1, "n", 4)],                               "1: a@n g1 s1 4/2/2"),
        ("two slices, two nodes", gpu(),                                 vec![slice("a", 1, 2, "n", 4), slice("a", 1, 2, "m", 1)],     "1: a@- g1 s2 5/2/3"),
        ("an old generation",    gpu(),                                  vec![slice("a", 1, 1, "n", 4), slice("a", 2, 1, "n", 1)],     "1: a@n g2 s1 1/2/0"),
        ("a slice is missing",        gpu(),                                  vec![slice("a", 1, 2, "n", 4)],                               "waiting for ResourceSlice/s to be joined by the other ResourceSlices of its pool"),
        ("another pool",         json!({"driver": "gpu", "poolName": "b"}), vec![slice("a", 1, 2, "n", 4), slice("b", 1, 1, "", 3)],   "1: b@- g1 s1 3/0/3"),
        ("another driver",       json!({"driver": "nic"}),               vec![slice("a", 1, 1, "n", 4)],                               "0: "),
        ("no more than the limit", json!({"driver": "gpu", "limit": 1}),   vec![slice("b", 1, 2, "n", 1), slice("a", 1, 1, "n", 1)],     "2: a@n g1 s1 1/2/0"),
    ];
    let claims = [claim(&[("gpu", "a"), ("gpu", "a"), ("nic", "a")])];
    for (case, spec, slices, want) in table {
        let request = request(spec);
        let view = View { request: &request, slices: &slices, claims: &claims, now: now() };
        assert_eq!(shown(&plan(&view)), want, "{case}");
    }
}

#[test]
fn requests_are_deleted_an_hour_after_the_answer_or_a_day_after_creation() {
    let request = |created: &str, conditions: Option<Value>| {
        let mut object = json!({"metadata": {"name": "q", "creationTimestamp": created}});
        if let Some(conditions) = conditions {
            object["status"] = json!({"conditions": conditions});
        }
        Arc::new(serde_json::from_value::<ResourcePoolStatusRequest>(object).unwrap())
    };
    let complete =
        |when: &str| Some(json!([{"type": "Complete", "status": "True", "lastTransitionTime": when}]));
    #[rustfmt::skip]
    let table = [
        // case                 created                 conditions                        deletion
        ("pending",             "2026-03-09T13:00:00Z", None,                             ""),
        ("never answered",      "2026-03-09T11:00:00Z", None,                             "it was created more than a day ago and has no status"),
        ("answered",            "2026-03-01T00:00:00Z", complete("2026-03-10T11:30:00Z"), ""),
        ("answered long ago",   "2026-03-01T00:00:00Z", complete("2026-03-10T10:30:00Z"), "it was answered more than an hour ago"),
        ("no conditions",       "2026-03-01T00:00:00Z", Some(json!([])),                  "it was answered more than an hour ago"),
    ];
    for (case, created, conditions, want) in table {
        let plan = expiry::plan(&[request(created, conditions)], now());
        let want = if want.is_empty() {
            "each".to_owned()
        } else {
            format!("each\n  delete ResourcePoolStatusRequest q: {want}")
        };
        assert_eq!(plan.to_string(), want, "{case}");
    }
}
