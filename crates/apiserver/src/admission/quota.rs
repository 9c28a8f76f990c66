//! ResourceQuota: what an object would use is checked against the namespace's quotas and added to their `used`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::limits::pod_total;
use super::{Operation, Request, forbid};
use crate::error::ApiError;
use crate::kinds::Quantity;
use crate::life::{Ops, Target, at_once};
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};

/// Prefix of the quota entries that count the devices of a class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// What a claim for all devices counts as: the maximum that can be allocated.
const ALL_DEVICES: usize = 32;

type Amounts = BTreeMap<String, Quantity>;

/// Checks a write against the quotas and adds its usage.
pub(super) fn charge(
    ops: &Ops<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if matches!(request.plural, "resourcequotas" | "events") {
        return Ok(());
    }
    let measured =
        matches!(request.plural, "pods" | "services" | "persistentvolumeclaims" | "resourceclaims");
    match (request.operation, request.sub) {
        (Operation::Create, None) => {}
        (Operation::Update, None | Some(Subresource::Resize)) if measured => {}
        _ => return Ok(()),
    }
    let namespace = meta::text(new, "namespace");
    let quotas = ops.server.store.all(&ShelfId::new("", "resourcequotas"), Some(namespace));
    if quotas.is_empty() {
        return Ok(());
    }
    let usage = usage(request, new);
    let before = match request.operation {
        Operation::Update => old.map(|old| self::usage(request, old)).unwrap_or_default(),
        _ => Amounts::new(),
    };
    let delta: Amounts = usage
        .iter()
        .map(|(name, value)| (name.clone(), before.get(name).map_or(*value, |b| value.minus(*b))))
        .filter(|(_, value)| value.sign().is_gt())
        .collect();
    for entry in &quotas {
        let quota = entry.value();
        if scopes_match(&quota, request, new) {
            check(ops, request, &quota, &usage, &delta, new)?;
        }
    }
    if ops.dry_run || delta.is_empty() {
        return Ok(());
    }
    for entry in &quotas {
        if scopes_match(&entry.value(), request, new) {
            book(ops, &entry.key, &delta, new)?;
        }
    }
    Ok(())
}

fn list(names: &[&str]) -> String {
    names.join(",")
}

fn check(
    ops: &Ops<'_>,
    request: &Request<'_>,
    quota: &Value,
    usage: &Amounts,
    delta: &Amounts,
    new: &Value,
) -> Result<(), ApiError> {
    let name = meta::text(quota, "name");
    let hard = super::limits::amounts(&quota["status"]["hard"]);
    let used = super::limits::amounts(&quota["status"]["used"]);
    let relevant: Vec<&str> = hard.keys().map(String::as_str).filter(|key| concerns(request, key)).collect();
    if request.plural == "pods" {
        let unspecified: Vec<&str> =
            relevant.iter().copied().filter(|key| is_compute(key) && !usage.contains_key(*key)).collect();
        if !unspecified.is_empty() && request.operation == Operation::Create {
            let which = unspecified.iter().map(|key| format!("{key} for: {}", containers_without(new, key)));
            let text = which.collect::<Vec<_>>().join("; ");
            return Err(forbid(ops, new, &format!("failed quota: {name}: must specify {text}")));
        }
    }
    let unknown: Vec<&str> = relevant.iter().copied().filter(|key| !used.contains_key(*key)).collect();
    if !unknown.is_empty() {
        return Err(forbid(
            ops,
            new,
            &format!("status unknown for quota: {name}, resources: {}", list(&relevant)),
        ));
    }
    let exceeded: Vec<&str> = relevant
        .iter()
        .copied()
        .filter(|key| {
            delta.get(*key).is_some_and(|more| {
                let total = used.get(*key).map_or(*more, |have| have.plus(*more));
                hard.get(*key).is_some_and(|limit| total.compare(*limit).is_gt())
            })
        })
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let print = |amounts: &Amounts| {
        let shown =
            exceeded.iter().filter_map(|key| Some(format!("{key}={}", amounts.get(*key)?.canonical())));
        shown.collect::<Vec<_>>().join(",")
    };
    let why = format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        print(delta),
        print(&used),
        print(&hard)
    );
    Err(forbid(ops, new, &why))
}

/// Adds to a quota's usage; checks again, since another write may have come first.
fn book(ops: &Ops<'_>, key: &Key, delta: &Amounts, new: &Value) -> Result<(), ApiError> {
    let Some(resource) = ops.server.catalog.get("", "v1", "resourcequotas") else { return Ok(()) };
    let user = crate::bootstrap::system_user();
    let mut writer = Ops::internal(ops.server, &resource, &user);
    let target = Target { sub: Some(Subresource::Status), repeatable: true, ..Target::default() };
    let change = |_: &mut Ops<'_>, old: Option<&Value>| {
        let mut quota = old.cloned().unwrap_or_default();
        let hard = super::limits::amounts(&quota["status"]["hard"]);
        let mut used = super::limits::amounts(&quota["status"]["used"]);
        for (name, more) in delta.iter().filter(|(name, _)| hard.contains_key(*name)) {
            let total = used.get(name).map_or(*more, |have| have.plus(*more));
            if hard.get(name).is_some_and(|limit| total.compare(*limit).is_gt()) {
                let quota_name = meta::text(&quota, "name");
                return Err(forbid(ops, new, &format!("exceeded quota: {quota_name}")));
            }
            used.insert(name.clone(), total);
        }
        let used: BTreeMap<&String, String> =
            used.iter().map(|(name, value)| (name, value.canonical())).collect();
        meta::child(&mut quota, "status").insert("used".to_owned(), json!(used));
        Ok(quota)
    };
    at_once(writer.update(key, target, change))?;
    Ok(())
}

/// Whether a quota entry is about this resource at all.
fn concerns(request: &Request<'_>, key: &str) -> bool {
    let counted = match request.group {
        "" => format!("count/{}", request.plural),
        group => format!("count/{}.{group}", request.plural),
    };
    if key == counted {
        return true;
    }
    match (request.group, request.plural) {
        ("", "pods") => key == "pods" || is_compute(key) || is_extended(key),
        ("", "services") => matches!(key, "services" | "services.loadbalancers" | "services.nodeports"),
        ("", "persistentvolumeclaims") => {
            matches!(key, "persistentvolumeclaims" | "requests.storage")
                || key.contains(".storageclass.storage.k8s.io/")
        }
        ("", plural @ ("configmaps" | "secrets" | "replicationcontrollers")) => key == plural,
        ("resource.k8s.io", "resourceclaims") => key.ends_with(DEVICES),
        _ => false,
    }
}

fn is_compute(key: &str) -> bool {
    const NAMES: [&str; 9] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    NAMES.contains(&key)
}

fn is_extended(key: &str) -> bool {
    key.strip_prefix("requests.").is_some_and(|name| name.contains('/') || name.starts_with("hugepages-"))
        || key.starts_with("hugepages-")
}

fn count(usage: &mut Amounts, name: impl Into<String>, n: usize) {
    if let Some(quantity) = Quantity::parse(&n.to_string()) {
        usage.insert(name.into(), quantity);
    }
}

fn usage(request: &Request<'_>, object: &Value) -> Amounts {
    let mut usage = Amounts::new();
    let spec = &object["spec"];
    count(
        &mut usage,
        match request.group {
            "" => format!("count/{}", request.plural),
            group => format!("count/{}.{group}", request.plural),
        },
        1,
    );
    match (request.group, request.plural) {
        ("", "pods") => {
            // A pod that has ended, or is being deleted past its grace, uses nothing.
            if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                return usage;
            }
            count(&mut usage, "pods", 1);
            for (name, value) in pod_total(object, "requests") {
                if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-")
                {
                    usage.insert(name.clone(), value);
                }
                usage.insert(format!("requests.{name}"), value);
            }
            for (name, value) in pod_total(object, "limits") {
                usage.insert(format!("limits.{name}"), value);
            }
        }
        ("", "services") => {
            count(&mut usage, "services", 1);
            let ports = spec["ports"].as_array().map_or(0, Vec::len);
            match spec["type"].as_str() {
                Some("NodePort") => count(&mut usage, "services.nodeports", ports),
                Some("LoadBalancer") => {
                    count(&mut usage, "services.loadbalancers", 1);
                    let none = spec["allocateLoadBalancerNodePorts"] == false;
                    count(&mut usage, "services.nodeports", if none { 0 } else { ports });
                }
                _ => {}
            }
        }
        ("", "persistentvolumeclaims") => {
            count(&mut usage, "persistentvolumeclaims", 1);
            // The annotation is older than the field, and still wins.
            let old = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
            let class = old.as_str().or(spec["storageClassName"].as_str()).unwrap_or_default();
            let by_class = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
            if !class.is_empty() {
                count(&mut usage, by_class("persistentvolumeclaims"), 1);
            }
            if let Some(size) = spec["resources"]["requests"]["storage"].as_str().and_then(Quantity::parse) {
                usage.insert("requests.storage".to_owned(), size);
                if !class.is_empty() {
                    usage.insert(by_class("requests.storage"), size);
                }
            }
        }
        ("", plural @ ("configmaps" | "secrets" | "replicationcontrollers")) => count(&mut usage, plural, 1),
        ("resource.k8s.io", "resourceclaims") => {
            for (class, devices) in devices(spec) {
                count(&mut usage, format!("{class}{DEVICES}"), devices);
            }
        }
        _ => {}
    }
    usage
}

/// The most devices of each class that a claim can be allocated. Of alternatives the largest counts, class by class.
fn devices(spec: &Value) -> BTreeMap<&str, usize> {
    let mut sums = BTreeMap::new();
    for request in spec["devices"]["requests"].as_array().into_iter().flatten() {
        let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
        let mut most = BTreeMap::new();
        for wish in request.get("exactly").into_iter().chain(alternatives) {
            let number = match wish["allocationMode"].as_str() {
                Some("All") => ALL_DEVICES,
                _ => wish["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
            };
            let held: &mut usize =
                most.entry(wish["deviceClassName"].as_str().unwrap_or_default()).or_default();
            *held = number.max(*held);
        }
        for (class, number) in most {
            let sum: &mut usize = sums.entry(class).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    sums
}

/// The containers without a request for a resource.
fn containers_without(pod: &Value, key: &str) -> String {
    let (field, name) = match key.split_once('.') {
        Some(("limits", name)) => ("limits", name),
        Some((_, name)) => ("requests", name),
        None => ("requests", key),
    };
    let all = ["containers", "initContainers"].into_iter();
    let all = all.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let missing = all.filter(|container| container["resources"][field].get(name).is_none());
    missing.filter_map(|container| container["name"].as_str()).collect::<Vec<_>>().join(",")
}

/// Whether a quota's scopes include an object; only pods have scopes (and claims, by their attributes class).
fn scopes_match(quota: &Value, request: &Request<'_>, object: &Value) -> bool {
    let plain = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let plain = plain.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selected =
        quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned();
    let all: Vec<Value> = plain.chain(selected).collect();
    if all.is_empty() {
        return true;
    }
    match (request.group, request.plural) {
        ("", "pods") => all.iter().all(|scope| scope_matches(scope, object)),
        ("", "persistentvolumeclaims") => all.iter().all(|scope| attributes_class_matches(scope, object)),
        _ => false,
    }
}

/// Whether a scope includes a claim by one of the attributes classes that it has, had or will have.
fn attributes_class_matches(scope: &Value, claim: &Value) -> bool {
    let names = [
        &claim["spec"]["volumeAttributesClassName"],
        &claim["status"]["currentVolumeAttributesClassName"],
        &claim["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let mut names = names.into_iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).peekable();
    scope["scopeName"] == "VolumeAttributesClass"
        && match names.peek() {
            None => selected(scope, ""),
            Some(_) => names.any(|name| selected(scope, name)),
        }
}

/// Whether the operator of a scope holds for a name; empty for none.
fn selected(scope: &Value, name: &str) -> bool {
    let listed = scope["values"].as_array().is_some_and(|values| values.iter().any(|value| value == name));
    match scope["operator"].as_str() {
        Some("In") => listed,
        Some("NotIn") => !listed,
        Some("DoesNotExist") => name.is_empty(),
        _ => !name.is_empty(),
    }
}

fn scope_matches(scope: &Value, pod: &Value) -> bool {
    let terminating = pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    let best_effort = pod_total(pod, "requests").is_empty() && pod_total(pod, "limits").is_empty();
    match scope["scopeName"].as_str() {
        Some("Terminating") => terminating,
        Some("NotTerminating") => !terminating,
        Some("BestEffort") => best_effort,
        Some("NotBestEffort") => !best_effort,
        Some("PriorityClass") => {
            selected(scope, pod["spec"]["priorityClassName"].as_str().unwrap_or_default())
        }
        Some("CrossNamespacePodAffinity") => pod["spec"]["affinity"].to_string().contains("\"namespace"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::devices;
    use serde_json::json;

    #[test]
    fn a_claim_counts_the_most_devices_that_it_can_be_given() {
        let wish = |class: &str, count: u64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
        let spec = json!({"devices": {"requests": [
            {"exactly": wish("gpu", 2)},
            {"exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
            {"firstAvailable": [wish("gpu", 4), wish("gpu", 3), wish("tpu", 5)]},
        ]}});
        let counted: Vec<_> = devices(&spec).into_iter().collect();
        assert_eq!(counted, [("gpu", 6), ("nic", 32), ("tpu", 5)]);
    }
}
