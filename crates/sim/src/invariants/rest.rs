//! Rules for a cluster at rest: statuses match the objects. While controllers work they lag behind, so these cannot be
//! checked at each write.

use std::sync::Arc;

use flyball_api::Quantity;
use serde_json::Value;

use super::values::{ensure, has_condition, has_ended, is_deleting, items, name, selects, text};
use super::{ServerState, Violation};

/// A rule for a cluster at rest.
struct Rest {
    controller: &'static str,
    says: &'static str,
    check: fn(&ServerState) -> Result<(), String>,
}

#[rustfmt::skip]
const RULES: &[Rest] = &[
    Rest { controller: "resourcequota-controller", says: "at rest, status.used matches what exists", check: used },
    Rest { controller: "disruption-controller",    says: "at rest, currentHealthy matches the pods",  check: healthy },
];

/// The violated rules of the given controllers.
pub(super) fn broken(state: &ServerState, controllers: &[String]) -> Vec<Violation> {
    let runs = |rest: &&Rest| controllers.iter().any(|known| known == rest.controller || known == "*");
    let judge = |rest: &Rest| {
        let wrong = (rest.check)(state).err()?;
        Some(Violation { controller: rest.controller, rule: rest.says, what: wrong })
    };
    RULES.iter().filter(runs).filter_map(judge).collect()
}

fn used(state: &ServerState) -> Result<(), String> {
    for quota in state.list("", "resourcequotas", None) {
        let is_scoped =
            items(&quota["spec"]["scopes"]).next().is_some() || quota["spec"]["scopeSelector"].is_object();
        let namespace = text(&quota["metadata"]["namespace"]);
        if is_scoped || is_deleting(&state.get("", "namespaces", "", namespace)) {
            continue;
        }
        for (resource, stated) in quota["status"]["used"].as_object().into_iter().flatten() {
            let Some(there) = amount(state, namespace, resource) else { continue };
            let stated = text(stated).parse::<Quantity>().map_or(f64::NAN, |stated| stated.to_f64());
            ensure((stated - there).abs() < 1e-6, || {
                format!("{} says {stated} of {resource}, and there is {there}", name(&quota))
            })?;
        }
    }
    Ok(())
}

/// How much of a limited resource a namespace uses; `None` where that is more than counting and adding.
fn amount(state: &ServerState, namespace: &str, resource: &str) -> Option<f64> {
    let count = |group: &str, plural: &str| Some(state.list(group, plural, Some(namespace)).len() as f64);
    match resource {
        "pods" => {
            let pods = state.list("", "pods", Some(namespace));
            // Until when a terminating pod counts depends on the time.
            let is_clear = !pods.iter().any(|pod| is_deleting(pod));
            is_clear.then(|| pods.iter().filter(|pod| !has_ended(pod)).count() as f64)
        }
        "services"
        | "secrets"
        | "configmaps"
        | "persistentvolumeclaims"
        | "replicationcontrollers"
        | "resourcequotas" => count("", resource),
        "requests.storage" => {
            let claims = state.list("", "persistentvolumeclaims", Some(namespace));
            // While a claim is resized, its status says how much it counts for.
            let is_plain = |claim: &Arc<Value>| claim["status"]["allocatedResources"].is_null();
            let size = |claim: &Arc<Value>| {
                let size = text(&claim["spec"]["resources"]["requests"]["storage"]).parse::<Quantity>();
                size.map_or(0.0, |size| size.to_f64())
            };
            claims.iter().all(is_plain).then(|| claims.iter().map(size).sum())
        }
        _ => {
            let counted = resource.strip_prefix("count/")?;
            let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
            (plural != "pods").then(|| count(group, plural)).flatten()
        }
    }
}

fn healthy(state: &ServerState) -> Result<(), String> {
    for budget in state.list("policy", "poddisruptionbudgets", None) {
        let (spec, status) = (&budget["spec"], &budget["status"]);
        // A budget that could not be evaluated keeps its old numbers, and one without a selector has no pods.
        let is_judged = status["observedGeneration"] == budget["metadata"]["generation"]
            && items(&status["conditions"]).all(|said| said["reason"] != "SyncFailed");
        if !is_judged || !spec["selector"].is_object() {
            continue;
        }
        let pods = state.list("", "pods", Some(text(&budget["metadata"]["namespace"])));
        let own = |pod: &&Arc<Value>| {
            selects(&spec["selector"], &pod["metadata"]["labels"])
                && has_condition(pod, "Ready")
                && !is_deleting(pod)
                && status["disruptedPods"][name(pod)].is_null()
        };
        let (there, stated) =
            (pods.iter().filter(own).count(), status["currentHealthy"].as_u64().unwrap_or(0));
        ensure(stated == there as u64, || format!("{} says {stated}, and there are {there}", name(&budget)))?;
    }
    Ok(())
}
