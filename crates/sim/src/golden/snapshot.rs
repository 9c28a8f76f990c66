//! Records the state of the cluster: objects, events and requests, normalised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use regex::Regex;
use serde_json::Value;

use super::StepError;
use super::backend::Backend;
use super::expected::Snapshot;
use super::normalise::{items, text};
use super::renumber::renumber;
use super::run::Run;
use super::scenario::SnapshotStep;
use crate::api::{Error, FAN_OUT, Resource};

/// Kinds with more objects than this are skipped, unless the scenario asks for them.
const CROWD: usize = 100;
/// Events about conflicts that controllers run into now and then, and retry.
const LOST_RACES: [&str; 3] = [
    "the object has been modified",
    "FailedToCreateEndpoint .* already exists",
    "StorageError: invalid object",
];

/// An event of the API server's own repair: on a slow machine a new Service's address is found before its record.
const REPAIRS: [&str; 1] = [r"\[(ip|port)allocator-repair-controller\]:"];

/// What API servers call a client that names neither a field manager nor itself, as the test.
const TEST_MANAGER: &str = "unknown";

/// Takes a snapshot; the controller manager should be at rest.
pub(super) async fn take<B: Backend>(run: &mut Run<'_, B>, step: &SnapshotStep) -> Result<(), StepError> {
    run.backend.inspect().await?;
    let skip: BTreeSet<&str> = run.scenario.ignore.iter().chain(&step.ignore).map(String::as_str).collect();
    let found = objects(run, &skip).await?;
    let all: Vec<Value> = found.iter().map(|(_, object)| object.clone()).collect();
    run.stage.names(|names| {
        names.observe(&all);
        for pod in all.iter().filter(|object| object["kind"] == "Pod") {
            names.learn_addresses(pod);
        }
    });
    let (mut objects, mut managers) = (BTreeMap::new(), BTreeMap::new());
    for (resource, object) in &found {
        if is_noise(object, &run.stage.namespace) || !is_wanted(resource, &skip, &step.only) {
            continue;
        }
        let (kind, meta) = (text(&object["kind"]), &object["metadata"]);
        let name = run.stage.names(|names| names.text(text(&meta["name"])));
        let name = match text(&meta["namespace"]) {
            "" => name,
            namespace if namespace == run.stage.namespace => name,
            elsewhere => format!("{elsewhere}:{name}"),
        };
        let key = format!("{kind}/{name}");
        managers.extend(field_managers(object).map(|managers| (key.clone(), managers.into())));
        objects.insert(key, run.stage.names(|names| names.object(object)));
    }
    let events = events(run).await?;
    run.poll_requests();
    let mut requests: BTreeMap<String, i64> = BTreeMap::new();
    for request in run.requests.drain(..) {
        let subresource = if request.subresource.is_empty() { "" } else { "/" };
        let key = format!(
            "{} {} {}{subresource}{} {}",
            request.actor(),
            request.verb,
            request.resource,
            request.subresource,
            request.code
        );
        *requests.entry(key).or_default() += 1;
    }
    let values = |counts: BTreeMap<String, i64>| counts.into_iter().map(|(k, v)| (k, v.into())).collect();
    let (events, requests) = (values(events), values(requests));
    let snapshot = Snapshot { label: step.label.clone(), objects, managers, events, requests };
    run.snapshots.push(if run.scenario.identity { snapshot } else { renumber(snapshot) });
    Ok(())
}

async fn objects<B: Backend>(
    run: &Run<'_, B>,
    skip: &BTreeSet<&str>,
) -> Result<Vec<(Arc<Resource>, Value)>, Error> {
    let resources = run.api.preferred().into_iter().filter(|resource| {
        let asked_for = resource.namespaced || run.scenario.cluster.contains(&resource.name);
        let noisy =
            matches!(resource.name.as_str(), "events" | "leases") || resource.group == "events.k8s.io";
        asked_for && !noisy && resource.allows("list")
    });
    let lists: Vec<Result<Vec<Value>, Error>> = futures::stream::iter(resources.clone())
        .map(|resource| async move { list(run, &resource, skip).await })
        .buffered(FAN_OUT)
        .collect()
        .await;
    let mut out = Vec::new();
    for (resource, list) in resources.zip(lists) {
        out.extend(list?.into_iter().map(|object| (Arc::clone(&resource), object)));
    }
    Ok(out)
}

async fn list<B: Backend>(
    run: &Run<'_, B>,
    resource: &Resource,
    skip: &BTreeSet<&str>,
) -> Result<Vec<Value>, Error> {
    let scenario = run.scenario;
    if !resource.namespaced {
        let mut items = run.api.list(resource, None, None).await?;
        items.retain(|object| {
            let name = text(&object["metadata"]["name"]).to_owned();
            let key = (resource.path.clone(), resource.name.clone(), name);
            !run.backend.baseline().contains(&key) || scenario.cluster_names.contains(&key.2)
        });
        return Ok(items);
    }
    let mut items = run.api.list(resource, Some(&run.stage.namespace), None).await?;
    if skip.contains(resource.name.as_str()) && items.len() > CROWD {
        return Ok(Vec::new());
    }
    if scenario.extra_resources.contains(&resource.name) {
        for namespace in &scenario.namespaces {
            items.extend(run.api.list(resource, Some(namespace), None).await?);
        }
    }
    Ok(items)
}

/// Who set fields of an object, besides the test: `MANAGER OPERATION SUBRESOURCE, …`.
fn field_managers(object: &Value) -> Option<String> {
    let entries = items(&object["metadata"]["managedFields"]);
    let managers: BTreeSet<String> = entries
        .iter()
        .filter(|entry| entry["manager"] != TEST_MANAGER)
        .map(|entry| {
            let words = ["manager", "operation", "subresource"].map(|field| text(&entry[field]));
            words.join(" ").trim_end().to_owned()
        })
        .collect();
    let managers: Vec<String> = managers.into_iter().collect();
    (!managers.is_empty()).then(|| managers.join(", "))
}

/// ConfigMaps that the API server writes for itself.
fn is_noise(object: &Value, namespace: &str) -> bool {
    let name = text(&object["metadata"]["name"]);
    object["kind"] == "ConfigMap"
        && object["metadata"]["namespace"] != namespace
        && ["extension-apiserver-", "kube-apiserver-", "kube-root-ca"]
            .iter()
            .any(|start| name.starts_with(start))
}

fn is_wanted(resource: &Resource, skip: &BTreeSet<&str>, only: &[String]) -> bool {
    let name = resource.name.as_str();
    let full = format!("{name}.{}", resource.group);
    let skipped = skip.contains(name) && resource.group != "metrics.k8s.io" || skip.contains(full.as_str());
    !skipped && (only.is_empty() || only.iter().any(|wanted| wanted == name))
}

/// The events of the recorded namespaces, and those about cluster-scoped objects.
pub(super) async fn raw_events<B: Backend>(run: &Run<'_, B>) -> Result<Vec<Value>, Error> {
    let mut out = run.api.list_named("events", Some(&run.stage.namespace), None).await?;
    for namespace in &run.scenario.namespaces {
        out.extend(run.api.list_named("events", Some(namespace), None).await?);
    }
    let of_cluster = run.api.list_named("events", Some("default"), None).await?;
    out.extend(of_cluster.into_iter().filter(|event| text(&event["involvedObject"]["namespace"]).is_empty()));
    Ok(out)
}

/// How often each event was seen since the last snapshot.
async fn events<B: Backend>(run: &mut Run<'_, B>) -> Result<BTreeMap<String, i64>, StepError> {
    let mut seen: BTreeMap<String, i64> = BTreeMap::new();
    for event in raw_events(run).await? {
        let about = &event["involvedObject"];
        let source = match text(&event["source"]["component"]) {
            "" => text(&event["reportingComponent"]),
            component => component,
        };
        let (name, message) =
            run.stage.names(|names| (names.text(text(&about["name"])), names.text(text(&event["message"]))));
        let key = format!(
            "{} {} {}/{name} [{source}]: {message}",
            text(&event["type"]),
            text(&event["reason"]),
            text(&about["kind"]),
        );
        let count = |value: &Value| value.as_i64().filter(|count| *count > 0);
        let times = count(&event["series"]["count"]).or_else(|| count(&event["count"])).unwrap_or(1);
        *seen.entry(key).or_default() += times;
    }
    let ignored = run.scenario.ignore_events.iter().map(String::as_str).chain(LOST_RACES).chain(REPAIRS);
    let ignored = Regex::new(&ignored.collect::<Vec<_>>().join("|"))
        .map_err(|e| StepError::failed(format!("ignoreEvents: {e}")))?;
    let fresh = seen
        .iter()
        .map(|(key, count)| (key, count - run.seen_events.get(key).copied().unwrap_or_default()))
        .filter(|(key, count)| *count != 0 && !ignored.is_match(key))
        .map(|(key, count)| (key.clone(), count))
        .collect();
    run.seen_events = seen;
    Ok(fresh)
}
