//! Deployments, replica sets, daemon sets, stateful sets, replication controllers, revisions.

use serde_json::{Value, json};

use super::{At, Faults, go_struct, is_nothing, names, percent, quoting, selector};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;
use crate::kinds::pod;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The selector must match the template, whose restart policy must be `Always`.
fn selector_and_template(faults: &mut Faults, spec: &At<'_>, empty: &str) {
    let selector = spec.child("selector");
    if selector.value.is_null() {
        faults.push(Cause::required(selector.path.clone(), ""));
    } else {
        let before = faults.len();
        selector::check(faults, &selector);
        if faults.len() > before {
            let text = selector::text(selector.value);
            faults.push(quoting(Fault::Invalid, selector.path.clone(), &text, "invalid label selector"));
            return;
        }
        if selector::is_empty(selector.value) {
            faults.push(selector.invalid(empty));
        }
    }
    template(faults, spec, selector::matches(selector.value, spec.value.map("template.metadata.labels")));
}

fn template(faults: &mut Faults, spec: &At<'_>, matches: bool) {
    let labels = spec.child("template.metadata.labels");
    if !matches {
        faults.push(labels.invalid(MISMATCH));
    }
    let template = spec.child("template");
    pod::validate_template(faults, &template);
    let policy = template.text("spec.restartPolicy");
    if !policy.is_empty() && policy != "Always" && ["OnFailure", "Never"].contains(&policy) {
        faults.push(Cause::not_supported(template.path("spec.restartPolicy"), policy, &["Always"]));
    }
    if template.has("spec.activeDeadlineSeconds") {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        faults.push(Cause::forbidden(template.path("spec.activeDeadlineSeconds"), detail));
    }
}

/// The text of a strategy of an unknown type, which errors quote.
fn strategy_text(strategy: &At<'_>) -> String {
    go_struct(&[("Type", strategy.value.at("type")), ("RollingUpdate", strategy.value.at("rollingUpdate"))])
}

fn unknown_strategy(strategy: &At<'_>, allowed: [&str; 2]) -> Cause {
    let detail = format!("supported values: {:?}, {:?}", allowed[0], allowed[1]);
    quoting(Fault::NotSupported, strategy.path.clone(), &strategy_text(strategy), &detail)
}

pub(in crate::kinds) fn deployment(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.non_negative(&mut faults, "replicas");
    selector_and_template(&mut faults, &spec, "empty selector is invalid for deployment");
    deployment_strategy(&mut faults, &spec.child("strategy"));
    for field in ["minReadySeconds", "revisionHistoryLimit"] {
        spec.non_negative(&mut faults, field);
    }
    spec.non_negative(&mut faults, "progressDeadlineSeconds");
    if let Some(deadline) = spec.int("progressDeadlineSeconds")
        && deadline <= spec.int("minReadySeconds").unwrap_or(0)
    {
        let path = spec.path("progressDeadlineSeconds");
        faults.push(Cause::invalid(path, deadline, "must be greater than minReadySeconds"));
    }
    faults
}

fn deployment_strategy(faults: &mut Faults, strategy: &At<'_>) {
    match strategy.text("type") {
        "Recreate" if strategy.has("rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            faults.push(Cause::forbidden(strategy.path("rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let update = strategy.child("rollingUpdate");
            if update.value.is_null() {
                let detail = "this should be defaulted and never be nil";
                faults.push(Cause::required(update.path.clone(), detail));
                return;
            }
            update.positive_share(faults, "maxUnavailable");
            update.positive_share(faults, "maxSurge");
            if is_nothing(update.value.at("maxUnavailable")) && is_nothing(update.value.at("maxSurge")) {
                let value = update.value.at("maxUnavailable").clone();
                faults.push(Cause::invalid(
                    update.path("maxUnavailable"),
                    value,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            if let Some(text) = update.value.at("maxUnavailable").as_str()
                && percent(text).is_some_and(|percent| percent > 100)
            {
                faults.push(Cause::invalid(
                    update.path("maxUnavailable"),
                    text,
                    "must not be greater than 100%",
                ));
            }
        }
        _ => faults.push(unknown_strategy(strategy, ["Recreate", "RollingUpdate"])),
    }
}

pub(in crate::kinds) fn deployment_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = deployment(new);
    At::root(new).immutable(&mut faults, old, "spec.selector");
    faults
}

pub(in crate::kinds) fn replica_set(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.non_negative(&mut faults, "replicas");
    spec.non_negative(&mut faults, "minReadySeconds");
    selector_and_template(&mut faults, &spec, "empty selector is invalid for deployment");
    faults
}

pub(in crate::kinds) fn replica_set_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = replica_set(new);
    At::root(new).immutable(&mut faults, old, "spec.selector");
    faults
}

/// Counts in the status must not be negative, and no count may exceed the number of replicas.
pub(in crate::kinds) fn replica_counts(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let status = At::root(object).child("status");
    let fields =
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    for field in fields {
        status.non_negative(&mut faults, field);
    }
    let replicas = status.int("replicas").unwrap_or(0);
    for field in &fields[1..4] {
        if let Some(count) = status.int(field).filter(|count| *count > replicas) {
            faults.push(Cause::invalid(status.path(field), count, "cannot be greater than status.replicas"));
        }
    }
    faults
}

pub(in crate::kinds) fn daemon_set(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    selector_and_template(&mut faults, &spec, "empty selector is invalid for daemonset");
    spec.non_negative(&mut faults, "minReadySeconds");
    daemon_set_strategy(&mut faults, &spec.child("updateStrategy"));
    spec.non_negative(&mut faults, "revisionHistoryLimit");
    faults
}

fn daemon_set_strategy(faults: &mut Faults, strategy: &At<'_>) {
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let update = strategy.child("rollingUpdate");
            if update.value.is_null() {
                faults.push(Cause::required(update.path.clone(), ""));
                return;
            }
            update.share(faults, "maxUnavailable");
            update.share(faults, "maxSurge");
            let (unavailable, surge) = (update.value.at("maxUnavailable"), update.value.at("maxSurge"));
            match (is_nothing(unavailable), is_nothing(surge)) {
                (true, true) => {
                    faults.push(Cause::required(
                        update.path("maxUnavailable"),
                        "cannot be 0 when maxSurge is 0",
                    ));
                }
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    faults.push(Cause::invalid(update.path("maxSurge"), surge.clone(), detail));
                }
                _ => {}
            }
        }
        _ => faults.push(unknown_strategy(strategy, ["RollingUpdate", "OnDelete"])),
    }
}

pub(in crate::kinds) fn daemon_set_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = daemon_set(new);
    At::root(new).immutable(&mut faults, old, "spec.selector");
    faults
}

pub(in crate::kinds) fn stateful_set(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let object = &with_claims_as_volumes(object);
    let spec = At::root(object).child("spec");
    stateful_set_policies(&mut faults, &spec);
    spec.non_negative(&mut faults, "replicas");
    spec.non_negative(&mut faults, "minReadySeconds");
    spec.child("ordinals").non_negative(&mut faults, "start");
    selector_and_template(&mut faults, &spec, "empty selector is invalid for statefulset");
    spec.may_be(&mut faults, "serviceName", names::label);
    spec.non_negative(&mut faults, "revisionHistoryLimit");
    faults
}

/// Containers may mount the volumes of the claim templates.
fn with_claims_as_volumes(object: &Value) -> Value {
    let mut object = object.clone();
    let claims: Vec<Value> = object
        .items("spec.volumeClaimTemplates")
        .iter()
        .map(|claim| claim.at("metadata.name").clone())
        .collect();
    let mut volumes = object.items("spec.template.spec.volumes").to_vec();
    for name in claims.into_iter().filter(|name| name.is_string()) {
        if !volumes.iter().any(|volume| volume.at("name") == &name) {
            volumes.push(json!({"name": name, "emptyDir": {}}));
        }
    }
    if !volumes.is_empty() {
        object.put("spec.template.spec.volumes", volumes);
    }
    object
}

fn stateful_set_policies(faults: &mut Faults, spec: &At<'_>) {
    match spec.text("podManagementPolicy") {
        "" => faults.push(Cause::required(spec.path("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            faults.push(Cause::invalid(spec.path("podManagementPolicy"), other, detail));
        }
    }
    let strategy = spec.child("updateStrategy");
    match strategy.text("type") {
        "" => faults.push(Cause::required(strategy.path.clone(), "")),
        "OnDelete" if strategy.has("rollingUpdate") => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            let value = strategy.value.at("rollingUpdate").clone();
            faults.push(Cause::invalid(strategy.path("rollingUpdate"), value, detail));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let update = strategy.child("rollingUpdate");
            update.non_negative(faults, "partition");
            update.share(faults, "maxUnavailable");
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            faults.push(quoting(Fault::Invalid, strategy.path.clone(), &strategy_text(&strategy), detail));
        }
    }
    let retention = spec.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        retention.one_of(faults, field, &["Retain", "Delete"]);
    }
}

/// Only these fields of a stateful set may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(in crate::kinds) fn stateful_set_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = stateful_set(new);
    let fixed = |set: &Value| {
        let mut spec = set.at("spec").clone();
        MUTABLE.iter().for_each(|field| drop(spec.pull(field)));
        spec
    };
    if fixed(new) != fixed(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        faults.push(Cause::forbidden("spec", detail));
    }
    faults
}

pub(in crate::kinds) fn replication_controller(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.non_negative(&mut faults, "minReadySeconds");
    spec.require(&mut faults, "selector");
    spec.non_negative(&mut faults, "replicas");
    if spec.value.at("template").is_null() {
        faults.push(Cause::required(spec.path("template"), ""));
        return faults;
    }
    let selector = json!({"matchLabels": spec.value.at("selector")});
    template(&mut faults, &spec, selector::matches(&selector, spec.value.map("template.metadata.labels")));
    faults
}

pub(in crate::kinds) fn controller_revision(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.non_negative(&mut faults, "revision");
    match (object.at("data"), old) {
        (Value::Null, None) => faults.push(Cause::required("data", "data is mandatory")),
        (_, Some(old)) => root.immutable(&mut faults, old, "data"),
        _ => {}
    }
    faults
}

pub(in crate::kinds) fn pod_template(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    pod::validate_template(&mut faults, &At::root(object).child("template"));
    faults
}
