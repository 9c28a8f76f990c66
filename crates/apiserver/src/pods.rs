//! Binding of pods to nodes, and eviction under disruption budgets.

use flyball_api::topology;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::error::{ApiError, Named};
use crate::life::{DeleteOptions, Ops, SERVER_MANAGER, Target, at_once};
use crate::meta;
use crate::registry::Subresource;
use crate::selector::LabelSelector;
use crate::store::{Key, ShelfId};
use crate::verbs::{Answer, Call};

const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const MAX_DISRUPTED: usize = 2000;
const TOPOLOGY: [&str; 2] = [topology::ZONE, topology::REGION];

pub(crate) async fn bind(call: &Call<'_>) -> Result<Answer, ApiError> {
    let binding = call.json_body("Binding")?;
    let name = call.info.name.as_deref().unwrap_or_default();
    if meta::text(&binding, "name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    bind_to(call, name, binding, Some(Subresource::Binding)).await
}

/// POST …/bindings, where the name is in the body.
pub(crate) async fn bind_from_collection(call: &Call<'_>, binding: &Value) -> Result<Answer, ApiError> {
    bind_to(call, meta::text(binding, "name"), binding.clone(), None).await
}

async fn bind_to(
    call: &Call<'_>,
    name: &str,
    mut binding: Value,
    sub: Option<Subresource>,
) -> Result<Answer, ApiError> {
    let key = Key::new(call.info.namespace.clone().unwrap_or_default(), name);
    let mut base = call.ops()?;
    admission::pass(&mut base, (Operation::Create, sub), &key, &mut binding).await?;
    let binding = &binding;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    let invalid = |field: &str| {
        let named = Named { group: "", what: "Binding", name };
        ApiError::invalid(named, &[crate::invalid::Cause::required(field, "")])
    };
    if node.is_empty() {
        return Err(invalid("target.name"));
    }
    let pods = call.server.catalog.get("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
    let mut ops = base.on(&pods);
    let zone_labels = topology_labels(&ops, node);
    let now = ops.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    ops.rewrite(&key, |pod| {
        let refuse =
            |why: String| Err(ApiError::conflict(Named { group: "", what: "pods/binding", name }, &why));
        let uid = meta::text(binding, "uid");
        if !uid.is_empty() && uid != meta::text(pod, "uid") {
            let found = meta::text(pod, "uid");
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(ApiError::conflict(Named { group: "", what: "pods", name }, &why));
        }
        if meta::is_deleting(pod) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if let Some(taken) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
            return refuse(format!("pod {name} is already assigned to node {taken:?}"));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        meta::child(pod, "spec").insert("nodeName".to_owned(), json!(node));
        if let Some(status) = pod["status"].as_object_mut() {
            status.remove("nominatedNodeName");
        }
        for (field, extra) in [("annotations", &binding["metadata"]["annotations"]), ("labels", &zone_labels)]
        {
            let Some(extra) = extra.as_object().filter(|extra| !extra.is_empty()) else { continue };
            let metadata = meta::of(pod);
            let into = metadata.entry(field).or_insert_with(|| json!({}));
            if let Some(into) = into.as_object_mut() {
                into.extend(extra.clone());
            }
        }
        set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), &now);
        Ok(())
    })?;
    let written = ops.written;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer { response: call.value(201, &status), written })
}

fn topology_labels(ops: &Ops<'_>, node: &str) -> Value {
    let node = ops.server.store.get(&ShelfId::new("", "nodes"), &Key::new("", node));
    let Some(node) = node else { return Value::Null };
    let labels = node.facets.labels.iter().filter(|(key, _)| TOPOLOGY.contains(&key.as_str()));
    labels.map(|(key, value)| (key.to_string(), json!(value))).collect()
}

/// Sets a pod condition; the transition time moves only when the status does.
pub(crate) fn set_condition(pod: &mut Value, condition: Value, now: &str) {
    let status = meta::child(pod, "status");
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    let mut condition = condition;
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = json!(now);
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

pub(crate) async fn evict(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut eviction = call.json_body("Eviction")?;
    let key = call.key();
    let name = meta::text(&eviction, "name");
    if !name.is_empty() && name != key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut ops = call.ops()?;
    admission::pass(&mut ops, (Operation::Create, Some(Subresource::Eviction)), &key, &mut eviction).await?;
    // What follows is the server's own work.
    ops.review = None;
    let mut options = DeleteOptions::read(&eviction["deleteOptions"])?;
    ops.dry_run |= eviction["deleteOptions"]["dryRun"].as_array().is_some_and(|list| !list.is_empty());
    let entry = ops.get(&key)?;
    let pod = entry.value();
    if !ignores_budgets(&pod) {
        spend_budget(&ops, &pod, &mut options, entry.version)?;
    }
    if !ops.dry_run {
        mark_evicted(&mut ops, &key, &mut options)?;
    }
    at_once(ops.delete(&key, &options))?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(call.done(call.value(201, &status), &ops))
}

/// Whether a pod can be evicted regardless of budgets, because it does not run.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
        || meta::is_deleting(pod)
}

fn mark_evicted(ops: &mut Ops<'_>, key: &Key, options: &mut DeleteOptions) -> Result<(), ApiError> {
    let now = ops.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let target = Target { sub: Some(Subresource::Status), repeatable: true, ..Target::default() };
    let wanted_uid = options.uid.clone();
    let change = |ops: &mut Ops<'_>, old: Option<&Value>| {
        let mut pod = old.cloned().unwrap_or_default();
        let uid = meta::text(&pod, "uid");
        if let Some(wanted) = wanted_uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated"
            );
            return Err(ApiError::conflict(ops.resource.kind_named(meta::text(&pod, "name")), &why));
        }
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_condition(&mut pod, condition, &now);
        Ok(pod)
    };
    let updated = at_once(ops.update(key, target, change))?;
    if options.resource_version.is_some() {
        options.resource_version = Some(updated.entry.version.to_string());
    }
    Ok(())
}

fn budget_error(message: String, retry_after: u64) -> ApiError {
    ApiError::too_many_requests(BUDGET, retry_after)
        .with_cause(json!({"reason": "DisruptionBudget", "message": message}))
}

/// Uses one allowed disruption of the pod's budget, or refuses the eviction.
fn spend_budget(
    ops: &Ops<'_>,
    pod: &Value,
    options: &mut DeleteOptions,
    version: u64,
) -> Result<(), ApiError> {
    let shelf = ShelfId::new("policy", "poddisruptionbudgets");
    let labels = ops.resource.facets(pod).labels;
    let matching: Vec<Value> = ops
        .server
        .store
        .all(&shelf, Some(meta::text(pod, "namespace")))
        .iter()
        .map(|entry| entry.value())
        .filter(|budget| {
            LabelSelector::from_object(&budget["spec"]["selector"]).is_some_and(|s| s.matches(&labels))
        })
        .collect();
    let budget = match &matching[..] {
        [] => return Ok(()),
        [one] => one,
        _ => {
            let mut error = ApiError::unexplained(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            );
            error.code = 500;
            return Err(error);
        }
    };
    if !is_ready(pod) {
        let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
        let desired = number("desiredHealthy");
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if always || (number("currentHealthy") >= desired && desired > 0) {
            options.resource_version.get_or_insert_with(|| version.to_string());
            return Ok(());
        }
    }
    let resource = ops.server.catalog.get("policy", "v1", "poddisruptionbudgets");
    let resource = resource.ok_or_else(ApiError::no_such_resource)?;
    let key = Key::new(meta::text(budget, "namespace"), meta::text(budget, "name"));
    let mut writer = Ops { manager: SERVER_MANAGER, ..ops.on(&resource) };
    let now = ops.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let target = Target { sub: Some(Subresource::Status), repeatable: true, ..Target::default() };
    let change = |_: &mut Ops<'_>, old: Option<&Value>| {
        let mut budget = old.cloned().unwrap_or_default();
        check_and_decrement(&mut budget, meta::text(pod, "name"), &now)?;
        Ok(budget)
    };
    at_once(writer.update(&key, target, change))?;
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn check_and_decrement(budget: &mut Value, pod: &str, now: &str) -> Result<(), ApiError> {
    let name = meta::text(budget, "name").to_owned();
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(budget_error(
            format!("The disruption budget {name} is still being processed by the server."),
            10,
        ));
    }
    let allowed = number("disruptionsAllowed");
    let forbidden = |why: &str| {
        ApiError::forbidden(Named { group: "policy", what: "poddisruptionbudget", name: &name }, why)
    };
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(budget_error(why_not(&name, status), 0));
    }
    let generation = budget["metadata"]["generation"].clone();
    let status = meta::child(budget, "status");
    status.insert("disruptionsAllowed".to_owned(), json!(allowed - 1));
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    if let Some(disrupted) = disrupted.as_object_mut() {
        disrupted.insert(pod.to_owned(), json!(now));
    }
    if allowed == 1 {
        no_longer_allowed(status, &generation, now);
    }
    Ok(())
}

fn why_not(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|c| c["type"] == "DisruptionAllowed");
    let text = |field: &str| condition.and_then(|c| c[field].as_str()).unwrap_or_default();
    let blocked = text("status") == "False" && !text("message").is_empty();
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
    let denies = format!("The disruption budget {name} does not allow evicting pods currently");
    match (blocked, text("reason"), text("message")) {
        (true, "SyncFailed", message) => format!("{denies} because it failed sync: {message}"),
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        (true, reason, message) => format!("{denies} ({reason}): {message}"),
        _ => denies,
    }
}

fn no_longer_allowed(status: &mut serde_json::Map<String, Value>, generation: &Value, now: &str) {
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else { return };
    let mut fresh = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": generation, "lastTransitionTime": now,
    });
    match list.iter_mut().find(|c| c["type"] == "DisruptionAllowed") {
        Some(old) => {
            if old["status"] == "False" {
                fresh["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = fresh;
        }
        None => list.push(fresh),
    }
}
