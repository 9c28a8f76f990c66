//! Validates a pod or a pod template. Containers, volumes and scheduling are in files of their own.

mod container;
mod scheduling;
mod volume;

pub(crate) use scheduling::allow_comparisons;

use serde_json::Value;

use crate::invalid::Cause;
use crate::kinds::json::Json;
use crate::kinds::validate::{At, Faults, ip, names, status};
use crate::registry::Subresource;

pub(super) fn create(pod: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(pod).child("spec");
    self::spec(&mut faults, &spec);
    if !spec.value.items("ephemeralContainers").is_empty() {
        faults.push(Cause::forbidden(spec.path("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.text("nodeName").is_empty() && !spec.value.items("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        faults.push(Cause::forbidden(spec.path("nodeName"), detail));
    }
    faults
}

/// The template of pods at a place.
pub(in crate::kinds) fn template(faults: &mut Faults, template: &At<'_>) {
    // Upstream leaves `metadata` out of the path.
    let labels = At { value: template.value.at("metadata"), path: template.path.clone() };
    labels.labels(faults, "labels");
    for (key, _) in template.value.map("metadata.annotations").into_iter().flatten() {
        let details = names::qualified_name(&key.to_lowercase());
        let path = template.path("annotations");
        faults.extend(details.iter().map(|detail| Cause::invalid(path.clone(), key.as_str(), detail)));
    }
    spec(faults, &template.child("spec"));
    if !template.value.items("spec.ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        faults.push(Cause::forbidden(template.path("spec.ephemeralContainers"), detail));
    }
}

fn spec(faults: &mut Faults, spec: &At<'_>) {
    let volumes = volume::check(faults, spec);
    container::check(faults, spec, &volumes);
    spec.one_of(faults, "restartPolicy", &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    spec.one_of(faults, "dnsPolicy", &policies);
    dns(faults, spec);
    scheduling::check(faults, spec);
    spec.may_be(faults, "serviceAccountName", names::subdomain);
    spec.may_be(faults, "nodeName", names::subdomain);
    if spec.has("activeDeadlineSeconds") {
        spec.between(faults, "activeDeadlineSeconds", 1, i64::from(i32::MAX));
    }
    spec.may_be(faults, "hostname", names::label);
    host_name(faults, spec);
    for alias in spec.items("hostAliases") {
        alias.must_be(faults, "ip", ip);
        for host in alias.items("hostnames") {
            host.must_be(faults, "", names::subdomain);
        }
    }
    spec.may_be(faults, "priorityClassName", names::subdomain);
    spec.may_be(faults, "runtimeClassName", names::subdomain);
    security(faults, &spec.child("securityContext"));
    if spec.has("preemptionPolicy") {
        spec.one_of(faults, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    }
}

/// The subdomain of a pod is a DNS label; there is a special message for dots.
fn host_name(faults: &mut Faults, spec: &At<'_>) {
    let subdomain = spec.text("subdomain");
    if subdomain.contains('.') && names::subdomain(subdomain).is_empty() {
        faults.push(Cause::invalid(spec.path("subdomain"), subdomain, "must not contain dots"));
    } else {
        spec.may_be(faults, "subdomain", names::label);
    }
}

fn dns(faults: &mut Faults, spec: &At<'_>) {
    let config = spec.child("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if config.value.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            faults.push(Cause::required(config.path.clone(), detail));
        } else if config.value.items("nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            faults.push(Cause::required(config.path("nameservers"), detail));
        }
    }
    if config.value.items("nameservers").len() > 3 {
        let list = config.child("nameservers");
        faults.push(list.invalid("must not have more than 3 nameservers"));
    }
    for server in config.items("nameservers") {
        server.must_be(faults, "", ip);
    }
}

/// Ids of users and groups have 31 bits.
fn security(faults: &mut Faults, context: &At<'_>) {
    for field in ["runAsUser", "runAsGroup", "fsGroup"] {
        context.between(faults, field, 0, i64::from(i32::MAX));
    }
    for group in context.items("supplementalGroups") {
        group.between(faults, "", 0, i64::from(i32::MAX));
    }
}

const FROZEN: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions \
                      to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
                      was previously negative)";

/// Only a few fields of a pod may change.
pub(super) fn update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    spec(&mut faults, &At::root(new).child("spec"));
    for list in ["containers", "initContainers"] {
        let path = format!("spec.{list}");
        if new.items(&path).len() != old.items(&path).len() {
            let detail = "pod updates may not add or remove containers";
            faults.push(Cause::forbidden(path, detail));
            return faults;
        }
    }
    deadline(&mut faults, new, old);
    tolerations(&mut faults, new, old);
    gates(&mut faults, new, old);
    let gated = !old.items("spec.schedulingGates").is_empty();
    let frozen = |pod: &Value| {
        let mut spec = pod.at("spec").clone();
        for list in ["containers", "initContainers"] {
            spec.items_mut(list).iter_mut().for_each(|container| drop(container.pull("image")));
        }
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            spec.pull(field);
        }
        // The node selection of a pod with scheduling gates may be narrowed.
        if gated {
            spec.pull("nodeSelector");
            spec.pull("affinity.nodeAffinity");
        }
        let was_negative = old.int("spec.terminationGracePeriodSeconds").is_some_and(|period| period < 0);
        if was_negative && new.int("spec.terminationGracePeriodSeconds") == Some(1) {
            spec.pull("terminationGracePeriodSeconds");
        }
        spec
    };
    if frozen(new) != frozen(old) {
        faults.push(Cause::forbidden("spec", FROZEN));
    }
    faults
}

fn deadline(faults: &mut Faults, new: &Value, old: &Value) {
    let path = "spec.activeDeadlineSeconds";
    let Some(had) = old.int(path) else { return };
    let detail = format!("must be less than or equal to previous value of {had}");
    match new.int(path) {
        None => {
            let detail = "must not update from a positive integer to nil value";
            faults.push(Cause::invalid(path, Value::Null, detail));
        }
        Some(wanted) if wanted > had => faults.push(Cause::invalid(path, wanted, &detail)),
        Some(_) => {}
    }
}

fn tolerations(faults: &mut Faults, new: &Value, old: &Value) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.pull("tolerationSeconds");
        toleration
    };
    let kept: Vec<Value> = new.items("spec.tolerations").iter().map(without_time).collect();
    if !old.items("spec.tolerations").iter().all(|toleration| kept.contains(&without_time(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        faults.push(Cause::forbidden("spec.tolerations", detail));
    }
}

fn gates(faults: &mut Faults, new: &Value, old: &Value) {
    for (at, gate) in new.items("spec.schedulingGates").iter().enumerate() {
        if !old.items("spec.schedulingGates").contains(gate) {
            let detail = "only deletion is allowed, but found new scheduling gate";
            let path = format!("spec.schedulingGates[{at}].name");
            faults.push(Cause::forbidden(path, &format!("{detail} '{}'", gate.text("name"))));
        }
    }
}

/// A write to a subresource.
pub(super) fn subresource(sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    match sub {
        Subresource::EphemeralContainers => {
            let known = old.items("spec.ephemeralContainers");
            for (at, had) in known.iter().enumerate() {
                let now =
                    new.items("spec.ephemeralContainers").iter().find(|c| c.at("name") == had.at("name"));
                let path = format!("spec.ephemeralContainers[{at}]");
                match now {
                    None => faults
                        .push(Cause::forbidden(path, "existing ephemeral containers may not be removed")),
                    Some(now) if now != had => {
                        faults
                            .push(Cause::forbidden(path, "existing ephemeral containers may not be changed"));
                    }
                    Some(_) => {}
                }
            }
            spec(&mut faults, &At::root(new).child("spec"));
        }
        Subresource::Resize => {
            if new.items("spec.containers").len() != old.items("spec.containers").len() {
                faults.push(Cause::forbidden(
                    "spec.containers",
                    "containers may not be added or removed on resize",
                ));
            }
            spec(&mut faults, &At::root(new).child("spec"));
        }
        Subresource::Status => faults = status::pod(new, old),
        _ => {}
    }
    faults
}
