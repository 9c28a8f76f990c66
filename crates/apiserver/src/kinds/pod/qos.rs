//! The quality-of-service class of a pod, from the CPU and memory that its containers request.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed` if all containers have limits for both resources and equal requests, `BestEffort` if none has requests or limits,
/// otherwise `Burstable`. Pod-level resources replace those of the containers.
pub(super) fn class(pod: &Value) -> &'static str {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut all_limited = true;
    let containers = pod.items("spec.containers").iter().chain(pod.items("spec.initContainers"));
    let whole = pod.at("spec.resources");
    let lists: Vec<&Value> =
        if whole.is_object() { vec![whole] } else { containers.map(|c| c.at("resources")).collect() };
    for resources in lists {
        add(&mut requests, resources.at("requests"));
        let limited = add(&mut limits, resources.at("limits"));
        all_limited &= limited == COMPUTE.len() || whole.is_object() && limited == 0;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let as_limited = requests.iter().all(|(name, request)| {
        limits.get(name).is_some_and(|limit| limit.compare(*request) == Ordering::Equal)
    });
    if all_limited && as_limited && requests.len() == limits.len() { "Guaranteed" } else { "Burstable" }
}

/// Adds the CPU and memory of a resource list; returns how many of the two it has.
fn add(sum: &mut BTreeMap<&'static str, Quantity>, list: &Value) -> usize {
    let mut named = 0;
    for name in COMPUTE {
        let quantity = list.get(name).and_then(Value::as_str).and_then(Quantity::parse);
        if let Some(quantity) = quantity.filter(|q| q.sign() == Ordering::Greater) {
            named += 1;
            let total = sum.get(name).map_or(quantity, |so_far| so_far.plus(quantity));
            sum.insert(name, total);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_follow_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        #[rustfmt::skip]
        let table = [
            ("nothing asked",         json!([{}]),                                                       "BestEffort"),
            ("zero asks nothing",     json!([{"requests": {"cpu": "0"}}]),                               "BestEffort"),
            ("other resources",       json!([{"limits": {"nvidia.com/gpu": "1"}}]),                      "BestEffort"),
            ("a request alone",       json!([{"requests": {"cpu": "1"}}]),                               "Burstable"),
            ("limits as requests",    json!([{"requests": both, "limits": both}]),                       "Guaranteed"),
            ("one container without", json!([{"requests": both, "limits": both}, {}]),                   "Burstable"),
            ("lower requests",        json!([{"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": both}]), "Burstable"),
            ("only cpu limited",      json!([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}]),       "Burstable"),
        ];
        for (case, resources, want) in table {
            let containers: Vec<Value> =
                resources.as_array().unwrap().iter().map(|r| json!({"resources": r})).collect();
            assert_eq!(class(&json!({"spec": {"containers": containers}})), want, "{case}");
        }
    }
}
