//! What every new pod gets: a priority, tolerations for unhealthy nodes, the overhead of its runtime class.

use flyball_api::topology;
use serde_json::{Value, json};

use super::{Request, forbid};
use crate::error::ApiError;
use crate::life::Ops;
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};

const CLASSES: &str = "scheduling.k8s.io";
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOPOLOGY: [&str; 2] = [topology::ZONE, topology::REGION];

pub(super) fn tolerate(ops: &Ops<'_>, pod: &mut Value) {
    let seconds = ops.server.options.toleration.as_secs();
    let spec = meta::child(pod, "spec");
    let present: Vec<Value> = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    let tolerates = |key: &str| {
        present.iter().any(|toleration| {
            let own = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        })
    };
    let missing = TOLERATED.iter().filter(|key| !tolerates(key)).map(
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}),
    );
    let all: Vec<Value> = present.iter().cloned().chain(missing).collect();
    if all.len() > present.len() {
        spec.insert("tolerations".to_owned(), json!(all));
    }
}

/// Priority: resolves the class to a number.
pub(super) fn set_priority(ops: &Ops<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let wanted = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = match wanted.as_str() {
        "" => default_class(ops, None),
        name => {
            let entry = ops.server.store.get(&ShelfId::new(CLASSES, "priorityclasses"), &Key::new("", name));
            let missing = || forbid(ops, pod, &format!("no PriorityClass with name {name} was found"));
            Some(entry.ok_or_else(missing)?.value())
        }
    };
    let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        );
        return Err(forbid(ops, pod, &why));
    }
    let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbid(ops, pod, &why));
    }
    let spec = meta::child(pod, "spec");
    if let Some(class) = class {
        spec.insert("priorityClassName".to_owned(), class["metadata"]["name"].clone());
    }
    spec.insert("priority".to_owned(), json!(value));
    spec.insert("preemptionPolicy".to_owned(), json!(policy));
    Ok(())
}

/// The class of pods without one: of several defaults, the one with the lowest value.
fn default_class(ops: &Ops<'_>, except: Option<&str>) -> Option<Value> {
    let all = ops.server.store.all(&ShelfId::new(CLASSES, "priorityclasses"), None);
    let classes =
        all.iter().filter(|entry| except != Some(entry.key.name.as_str())).map(|entry| entry.value());
    classes.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}

/// Only one class can be the default.
pub(super) fn check_class(ops: &Ops<'_>, request: &Request<'_>, class: &Value) -> Result<(), ApiError> {
    let relevant = request.creates(CLASSES, "priorityclasses")
        || request.updates(CLASSES, "priorityclasses", None::<Subresource>);
    if !relevant || class["globalDefault"] != true {
        return Ok(());
    }
    match default_class(ops, Some(meta::text(class, "name"))) {
        None => Ok(()),
        Some(other) => {
            let name = meta::text(&other, "name");
            let why =
                format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(forbid(ops, class, &why))
        }
    }
}

/// RuntimeClass: the runtime's overhead and where it runs.
pub(super) fn set_overhead(ops: &Ops<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str().map(str::to_owned) else { return Ok(()) };
    let class =
        ops.server.store.get(&ShelfId::new("node.k8s.io", "runtimeclasses"), &Key::new("", name.as_str()));
    let Some(class) = class.map(|entry| entry.value()) else {
        return Err(forbid(ops, pod, &format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    if let Some(fixed) = class["overhead"]["podFixed"].as_object() {
        let given = &pod["spec"]["overhead"];
        if given.as_object().is_some_and(|given| !given.is_empty() && given != fixed) {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(forbid(ops, pod, why));
        }
        meta::child(pod, "spec").insert("overhead".to_owned(), json!(fixed));
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        let own = pod["spec"]["nodeSelector"].get(key).cloned();
        if let Some(own) = own.filter(|own| own != value) {
            let (own, value) = (own.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbid(ops, pod, &why));
        }
        let spec = meta::child(pod, "spec");
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        if let Some(selector) = selector.as_object_mut() {
            selector.insert(key.clone(), value.clone());
        }
    }
    let more = class["scheduling"]["tolerations"].as_array().cloned().unwrap_or_default();
    if !more.is_empty() {
        let spec = meta::child(pod, "spec");
        let list = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            let fresh: Vec<Value> =
                more.into_iter().filter(|toleration| !list.contains(toleration)).collect();
            list.extend(fresh);
        }
    }
    Ok(())
}

/// PodTopologyLabels: copies topology labels of the node to a pod that is created with a node name.
pub(super) fn copy_topology(ops: &Ops<'_>, pod: &mut Value) {
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()) else { return };
    let Some(node) = ops.server.store.get(&ShelfId::new("", "nodes"), &Key::new("", node)) else { return };
    let found = node.facets.labels.iter().filter(|(key, _)| TOPOLOGY.contains(&key.as_str()));
    for (key, value) in found {
        let metadata = meta::of(pod);
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(key.to_string(), json!(value));
        }
    }
}
