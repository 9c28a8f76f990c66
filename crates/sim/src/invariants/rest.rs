//! What must hold once everything is at rest: what controllers say is what there is. While they work it is late, so a
//! write cannot be judged by it.

use std::sync::Arc;

use flyball_api::Quantity;
use serde_json::Value;

use super::values::{ensure, has_condition, has_ended, is_deleting, items, name, selects, text};
use super::{Violation, World};

/// A rule for a cluster at rest.
struct Rest {
    controller: &'static str,
    says: &'static str,
    check: fn(&World) -> Result<(), String>,
}

#[rustfmt::skip]
const RULES: &[Rest] = &[
    Rest { controller: "resourcequota-controller", says: "at rest, what is used is what exists",      check: used },
    Rest { controller: "disruption-controller",    says: "at rest, the healthy pods are those there", check: healthy },
];

/// The rules of some controllers that do not hold.
pub(super) fn broken(world: &World, controllers: &[String]) -> Vec<Violation> {
    let runs = |rest: &&Rest| controllers.iter().any(|known| known == rest.controller || known == "*");
    let judge = |rest: &Rest| {
        let wrong = (rest.check)(world).err()?;
        Some(Violation { controller: rest.controller, rule: rest.says, what: wrong })
    };
    RULES.iter().filter(runs).filter_map(judge).collect()
}

fn used(world: &World) -> Result<(), String> {
    for quota in world.list("", "resourcequotas", None) {
        let is_scoped =
            items(&quota["spec"]["scopes"]).next().is_some() || quota["spec"]["scopeSelector"].is_object();
        let namespace = text(&quota["metadata"]["namespace"]);
        if is_scoped || is_deleting(&world.get("", "namespaces", "", namespace)) {
            continue;
        }
        for (resource, told) in quota["status"]["used"].as_object().into_iter().flatten() {
            let Some(there) = amount(world, namespace, resource) else { continue };
            let told = text(told).parse::<Quantity>().map_or(f64::NAN, |told| told.to_f64());
            ensure((told - there).abs() < 1e-6, || {
                format!("{} says {told} of {resource}, and there is {there}", name(&quota))
            })?;
        }
    }
    Ok(())
}

/// How much of a limited resource a namespace has; none where that takes more than counting and adding.
fn amount(world: &World, namespace: &str, resource: &str) -> Option<f64> {
    let count = |group: &str, plural: &str| Some(world.list(group, plural, Some(namespace)).len() as f64);
    match resource {
        "pods" => {
            let pods = world.list("", "pods", Some(namespace));
            // When a pod that is going stops to count depends on the time.
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
            let claims = world.list("", "persistentvolumeclaims", Some(namespace));
            // What a claim counts for while it grows is told by its status.
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

fn healthy(world: &World) -> Result<(), String> {
    for budget in world.list("policy", "poddisruptionbudgets", None) {
        let (spec, status) = (&budget["spec"], &budget["status"]);
        // One that could not be judged keeps its old numbers, and one without a selector has no pods.
        let is_judged = status["observedGeneration"] == budget["metadata"]["generation"]
            && items(&status["conditions"]).all(|said| said["reason"] != "SyncFailed");
        if !is_judged || !spec["selector"].is_object() {
            continue;
        }
        let pods = world.list("", "pods", Some(text(&budget["metadata"]["namespace"])));
        let own = |pod: &&Arc<Value>| {
            selects(&spec["selector"], &pod["metadata"]["labels"])
                && has_condition(pod, "Ready")
                && !is_deleting(pod)
                && status["disruptedPods"][name(pod)].is_null()
        };
        let (there, told) = (pods.iter().filter(own).count(), status["currentHealthy"].as_u64().unwrap_or(0));
        ensure(told == there as u64, || format!("{} says {told}, and there are {there}", name(&budget)))?;
    }
    Ok(())
}
