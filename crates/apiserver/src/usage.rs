//! `metrics.k8s.io`: the usage of pods and nodes, computed for each request. Served only if `Kubelet::usage` returns `Some`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::error::ApiError;
use crate::http::respond;
use crate::kinds;
use crate::options::{Amounts, PodUsage};
use crate::registry::{Builtin, ResourceInfo, Verbs};
use crate::selector::LabelSelector;
use crate::server::Inner;
use crate::store::ShelfId;
use crate::verbs::{Answer, Call};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// The window of a measurement.
const WINDOW: &str = "10s";

/// The resources, for the catalog.
pub(crate) fn resources() -> [Builtin; 2] {
    let pods = ResourceInfo::namespaced(GROUP, VERSION, "pods", "PodMetrics").verbs(Verbs::Read);
    let nodes = ResourceInfo::cluster(GROUP, VERSION, "nodes", "NodeMetrics").verbs(Verbs::Read);
    [pods, nodes].map(|info| Builtin { info: info.singular(""), strategy: kinds::plain() })
}

/// The response to a request for usage; `None` for other requests.
pub(crate) fn answer(call: &Call<'_>) -> Result<Option<Answer>, ApiError> {
    let is_measured = call.resource.group == GROUP && call.resource.custom.is_none();
    let Some(kubelet) = call.server.options.kubelet.as_ref().filter(|_| is_measured) else { return Ok(None) };
    let usage = kubelet.usage().unwrap_or_default();
    let selector = LabelSelector::parse(call.query.get("labelSelector").unwrap_or(""));
    let selector = selector.map_err(ApiError::bad_request)?;
    let at = call.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (kind, items): (&str, Vec<(SmolStr, Value)>) = match call.resource.plural.as_str() {
        "pods" => {
            let namespace = call.namespace();
            let wanted = usage
                .iter()
                .filter(|pod| namespace.is_empty() || pod.namespace == namespace)
                .filter(|pod| selector.matches(&pod.labels));
            ("PodMetrics", wanted.map(|pod| (pod.name.clone(), of_pod(pod, &at))).collect())
        }
        _ => (
            "NodeMetrics",
            by_node(call.server, &usage)
                .into_iter()
                .map(|(node, sum)| (node.clone(), of_node(&node, sum, &at)))
                .collect(),
        ),
    };
    let value = match &call.info.name {
        None => json!({
            "kind": format!("{kind}List"),
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "metadata": {},
            "items": items.into_iter().map(|(_, item)| item).collect::<Vec<_>>(),
        }),
        Some(name) => {
            let found = items.into_iter().find(|(found, _)| found == name);
            let (_, mut item) = found.ok_or_else(|| ApiError::not_found(call.resource.named(name)))?;
            item["kind"] = kind.into();
            item["apiVersion"] = format!("{GROUP}/{VERSION}").into();
            item
        }
    };
    Ok(Some(respond::value(200, &value, call.accept).into()))
}

fn amounts(used: Amounts) -> Value {
    json!({"cpu": format!("{}m", used.cpu_milli), "memory": format!("{}Ki", used.memory_bytes / 1024)})
}

fn of_pod(pod: &PodUsage, at: &str) -> Value {
    let labels: BTreeMap<&str, &str> =
        pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let containers: Vec<Value> =
        pod.containers.iter().map(|(name, used)| json!({"name": name, "usage": amounts(*used)})).collect();
    json!({
        "metadata": {"name": pod.name, "namespace": pod.namespace, "creationTimestamp": at, "labels": labels},
        "timestamp": at,
        "window": WINDOW,
        "containers": containers,
    })
}

fn of_node(node: &str, used: Amounts, at: &str) -> Value {
    json!({"metadata": {"name": node, "creationTimestamp": at}, "timestamp": at, "window": WINDOW, "usage": amounts(used)})
}

/// The usage of each node; zero if no pod runs on it.
fn by_node(server: &Inner, usage: &[PodUsage]) -> BTreeMap<SmolStr, Amounts> {
    let known = server.store.all(&ShelfId::new("", "nodes"), None);
    let names = known.iter().filter_map(|node| node.value()["metadata"]["name"].as_str().map(SmolStr::from));
    let mut nodes: BTreeMap<SmolStr, Amounts> = names.map(|name| (name, Amounts::default())).collect();
    for pod in usage {
        let sum = nodes.entry(pod.node.clone()).or_default();
        for (_, used) in &pod.containers {
            sum.cpu_milli = sum.cpu_milli.saturating_add(used.cpu_milli);
            sum.memory_bytes = sum.memory_bytes.saturating_add(used.memory_bytes);
        }
    }
    nodes
}
