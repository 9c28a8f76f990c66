//! LimitRanger: default requests and limits of containers, and their bounds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Request, forbid};
use crate::error::ApiError;
use crate::kinds::Quantity;
use crate::life::Ops;
use crate::meta;
use crate::store::ShelfId;

type Amounts = BTreeMap<String, Quantity>;

fn ranges(ops: &Ops<'_>, namespace: &str) -> Vec<Value> {
    ops.server
        .store
        .all(&ShelfId::new("", "limitranges"), Some(namespace))
        .iter()
        .map(|entry| entry.value())
        .collect()
}

fn items<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    range["spec"]["limits"].as_array().into_iter().flatten().filter(move |limit| limit["type"] == kind)
}

/// Gives containers the defaults of the namespace's ranges.
pub(super) fn set_defaults(ops: &Ops<'_>, pod: &mut Value) {
    for range in ranges(ops, meta::text(pod, "namespace")) {
        for limit in items(&range, "Container") {
            for (field, from) in [("limits", "default"), ("requests", "defaultRequest")] {
                let Some(defaults) = limit[from].as_object() else { continue };
                fill(pod, field, defaults);
            }
        }
    }
}

fn fill(pod: &mut Value, field: &str, defaults: &serde_json::Map<String, Value>) {
    for list in ["/spec/initContainers", "/spec/containers"] {
        let containers = pod.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if !container["resources"].is_object() {
                container["resources"] = json!({});
            }
            for (name, value) in defaults {
                let own = &mut container["resources"][field];
                if !own.is_object() {
                    *own = json!({});
                }
                if own.get(name).is_none() {
                    own[name.as_str()] = value.clone();
                }
            }
        }
    }
}

/// Refuses what is out of bounds.
pub(super) fn check(ops: &Ops<'_>, request: &Request<'_>, object: &Value) -> Result<(), ApiError> {
    let pod = request.creates("", "pods");
    let claim =
        request.creates("", "persistentvolumeclaims") || request.updates("", "persistentvolumeclaims", None);
    if !pod && !claim {
        return Ok(());
    }
    let mut faults = Vec::new();
    for range in ranges(ops, meta::text(object, "namespace")) {
        if claim {
            for limit in items(&range, "PersistentVolumeClaim") {
                let requests = amounts(&object["spec"]["resources"]["requests"]);
                check_bounds(limit, "PersistentVolumeClaim", &requests, &Amounts::new(), true, &mut faults);
            }
        }
        if pod {
            for limit in items(&range, "Container") {
                for list in ["containers", "initContainers"] {
                    for container in object["spec"][list].as_array().into_iter().flatten() {
                        let of = |field: &str| amounts(&container["resources"][field]);
                        check_bounds(limit, "Container", &of("requests"), &of("limits"), false, &mut faults);
                    }
                }
            }
            for limit in items(&range, "Pod") {
                let (requests, limits) = (pod_total(object, "requests"), pod_total(object, "limits"));
                check_bounds(limit, "Pod", &requests, &limits, false, &mut faults);
            }
        }
    }
    match &faults[..] {
        [] => Ok(()),
        [one] => Err(forbid(ops, object, one)),
        many => Err(forbid(ops, object, &format!("[{}]", many.join(", ")))),
    }
}

pub(super) fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?)?))).collect()
}

/// The requests of a pod as a whole: its containers together, or its largest init container if that is more.
pub(super) fn pod_total(pod: &Value, field: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        add(&mut total, &amounts(&container["resources"][field]));
    }
    let (mut sidecars, mut peaks) = (Amounts::new(), Amounts::new());
    for container in pod["spec"]["initContainers"].as_array().into_iter().flatten() {
        let own = amounts(&container["resources"][field]);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            continue;
        }
        // Only the sidecars before it run beside it.
        let mut peak = sidecars.clone();
        add(&mut peak, &own);
        raise(&mut peaks, peak);
    }
    raise(&mut total, peaks);
    add(&mut total, &amounts(&pod["spec"]["overhead"]));
    for (name, value) in amounts(&pod["spec"]["resources"][field]) {
        total.insert(name, value);
    }
    total
}

fn raise(total: &mut Amounts, to: Amounts) {
    for (name, value) in to {
        let entry = total.entry(name).or_insert(value);
        if value.compare(*entry).is_gt() {
            *entry = value;
        }
    }
}

pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, value) in more {
        let sum = total.get(name).map_or(*value, |have| have.plus(*value));
        total.insert(name.clone(), sum);
    }
}

fn check_bounds(
    limit: &Value,
    kind: &str,
    requests: &Amounts,
    limits: &Amounts,
    requests_only: bool,
    faults: &mut Vec<String>,
) {
    for (name, bound) in amounts(&limit["min"]) {
        let text = bound.canonical();
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => {
                faults.push(format!("minimum {name} usage per {kind} is {text}.  No request is specified"));
            }
            (Some(request), _) if request.compare(bound).is_lt() => {
                let request = request.canonical();
                faults.push(format!("minimum {name} usage per {kind} is {text}, but request is {request}"));
            }
            (_, Some(limit)) if limit.compare(bound).is_lt() => {
                let limit = limit.canonical();
                faults.push(format!("minimum {name} usage per {kind} is {text}, but limit is {limit}"));
            }
            _ => {}
        }
    }
    for (name, bound) in amounts(&limit["max"]) {
        let text = bound.canonical();
        let (request, limit) = (requests.get(&name), limits.get(&name));
        let (what, checked) = if requests_only { ("request", request) } else { ("limit", limit) };
        match checked {
            None => {
                faults.push(format!("maximum {name} usage per {kind} is {text}.  No {what} is specified"))
            }
            Some(value) if value.compare(bound).is_gt() => {
                let value = value.canonical();
                faults.push(format!("maximum {name} usage per {kind} is {text}, but {what} is {value}"));
            }
            _ => {
                if let Some(request) = request.filter(|request| request.compare(bound).is_gt()) {
                    let request = request.canonical();
                    faults
                        .push(format!("maximum {name} usage per {kind} is {text}, but request is {request}"));
                }
            }
        }
    }
    for (name, bound) in amounts(&limit["maxLimitRequestRatio"]) {
        if let Some(fault) = ratio_fault(&name, kind, bound, requests.get(&name), limits.get(&name)) {
            faults.push(fault);
        }
    }
}

fn ratio_fault(
    name: &str,
    kind: &str,
    bound: Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let text = format!("{name} max limit to request ratio per {kind} is {}", bound.canonical());
    let positive =
        |value: Option<&Quantity>| value.filter(|value| value.sign().is_gt()).map(|value| value.as_f64());
    let Some(request) = positive(request) else {
        return Some(format!("{text}, but no request is specified or request is 0"));
    };
    let Some(limit) = positive(limit) else {
        return Some(format!("{text}, but no limit is specified or limit is 0"));
    };
    let ratio = limit / request;
    (ratio > bound.as_f64()).then(|| format!("{text}, but provided ratio is {ratio:.6}"))
}

#[cfg(test)]
mod tests {
    use super::pod_total;
    use serde_json::{Value, json};

    #[test]
    fn only_the_sidecars_before_an_init_container_run_beside_it() {
        let container = |cpu: &str, policy: Option<&str>| -> Value {
            json!({"resources": {"limits": {"cpu": cpu}}, "restartPolicy": policy})
        };
        #[rustfmt::skip]
        let table = [
            // init containers                                                  total
            (vec![],                                                            "1"),
            (vec![container("3", None)],                                        "3"),
            (vec![container("3", None), container("500m", Some("Always"))],     "3"),
            (vec![container("500m", Some("Always")), container("3", None)],     "3500m"),
            (vec![container("4", Some("Always")), container("3", None)],        "7"),
            (vec![container("4", Some("Always"))],                              "5"),
        ];
        for (init, want) in table {
            let pod = json!({"spec": {"containers": [container("1", None)], "initContainers": init}});
            assert_eq!(pod_total(&pod, "limits")["cpu"].canonical(), want, "{init:?}");
        }
    }
}
