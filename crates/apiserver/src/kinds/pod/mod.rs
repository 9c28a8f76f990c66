//! Pods: defaults, fields that only the server sets (phase, quality of service, generation), and the grace period of
//! deletions. Validation and printing are in sibling files.

mod defaults;
mod print;
mod qos;
mod validate;
mod warn;

pub(crate) use validate::allow_comparisons;

use serde_json::{Value, json};

pub(super) use defaults::{default_container, default_pod, default_spec, default_status, default_volume};
pub(super) use validate::template as validate_template;
pub(super) use warn::spec as warnings;

use super::json::Json;
use super::shape::format_time;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, Strategy, Subresource};

/// `v1` Pod.
pub(super) struct Pod;

impl Strategy for Pod {
    fn prepare_create(&self, cx: &Cx<'_>, pod: &mut Value) {
        let mut status = json!({"phase": "Pending", "qosClass": qos::class(pod)});
        if !pod.items("spec.schedulingGates").is_empty() {
            status.put(
                "conditions",
                json!([{
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": null,
                    "lastTransitionTime": format_time(cx.now, 0),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }]),
            );
        }
        pod.put("status", status);
        merge_label_keys(pod);
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        match sub {
            Subresource::Status => keep_old_status_parts(new, old),
            Subresource::EphemeralContainers => {
                let added = new.pull("spec.ephemeralContainers");
                take_all_from(new, old);
                if let Some(added) = added {
                    new.put("spec.ephemeralContainers", added);
                }
            }
            Subresource::Resize => keep_only_resources(new, old),
            _ => {}
        }
    }

    fn validate_create(&self, pod: &Value) -> Vec<Cause> {
        validate::create(pod)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, old: &Value) -> Vec<Cause> {
        validate::subresource(sub, new, old)
    }

    fn warnings(&self, pod: &Value) -> Vec<String> {
        warn::spec(pod, "spec")
    }

    /// A pod that is not on a node yet, or has finished, is deleted at once, since no kubelet is involved.
    fn graceful_delete(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let finished = matches!(pod.text("status.phase"), "Failed" | "Succeeded");
        if finished || pod.text("spec.nodeName").is_empty() {
            return Some(0);
        }
        let period = requested.or_else(|| pod.int("spec.terminationGracePeriodSeconds")).unwrap_or(0);
        Some(if period < 0 { 1 } else { period })
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn field_values(&self, pod: &Value) -> Vec<String> {
        let ip = pod.items("status.podIPs").first().map_or("", |ip| ip.text("ip"));
        self.field_labels()
            .iter()
            .map(|label| match *label {
                "spec.hostNetwork" => pod.flag("spec.hostNetwork").to_string(),
                "status.podIP" | "status.podIPs" => ip.to_owned(),
                path => pod.text(path).to_owned(),
            })
            .collect()
    }

    fn columns(&self) -> &'static [Column] {
        print::COLUMNS
    }

    fn cells(&self, pod: &Value, now: jiff::Timestamp) -> Vec<Value> {
        print::cells(pod, now)
    }
}

/// Restores fields that a write to the status may not change: deletion, owners, quality of service, and `observedGeneration` if
/// an old kubelet leaves it out.
fn keep_old_status_parts(new: &mut Value, old: &Value) {
    for path in ["metadata.deletionTimestamp", "metadata.ownerReferences"] {
        restore(new, old, path);
    }
    for path in ["status.qosClass", "status.observedGeneration"] {
        if !new.has(path) {
            restore(new, old, path);
        }
    }
    let mut earlier: Vec<(&str, &Value)> =
        old.items("status.conditions").iter().map(|c| (c.text("type"), c.at("observedGeneration"))).collect();
    for condition in new.items_mut("status.conditions") {
        let kind = condition.text("type").to_owned();
        let Some(at) = earlier.iter().position(|(earlier, _)| *earlier == kind) else { continue };
        let (_, generation) = earlier.remove(at);
        if !condition.has("observedGeneration") && !generation.is_null() {
            condition.put("observedGeneration", generation.clone());
        }
    }
}

/// Restores spec, status and the user's metadata.
fn take_all_from(new: &mut Value, old: &Value) {
    for path in ["spec", "status"] {
        restore(new, old, path);
    }
    super::restore_user_metadata(new, old);
}

/// A resize may change only the resources of existing containers.
fn keep_only_resources(new: &mut Value, old: &Value) {
    let names = |pod: &Value, list: &str| -> Vec<String> {
        pod.items(list).iter().map(|c| c.text("name").to_owned()).collect()
    };
    let lists = ["spec.containers", "spec.initContainers"];
    if lists.iter().any(|list| names(new, list) != names(old, list)) {
        return; // validation names the fault
    }
    let wanted = new.clone();
    take_all_from(new, old);
    for list in lists {
        for (container, wanted) in new.items_mut(list).iter_mut().zip(wanted.items(list)) {
            for path in ["resources", "resizePolicy"] {
                restore(container, wanted, path);
            }
        }
    }
}

fn restore(new: &mut Value, old: &Value, path: &str) {
    if old.has(path) {
        new.put(path, old.at(path).clone());
    } else {
        new.pull(path);
    }
}

/// Adds `matchLabelKeys` of affinity terms and spread constraints to their label selectors.
fn merge_label_keys(pod: &mut Value) {
    let Some(labels) = pod.map("metadata.labels").cloned() else { return };
    let merge = |term: &mut Value| {
        if !term.has("labelSelector") {
            return;
        }
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let found: Vec<Value> = term
                .items(keys)
                .iter()
                .filter_map(|key| Some((key, labels.get(key.as_str()?)?)))
                .map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]}))
                .collect();
            if found.is_empty() {
                continue;
            }
            term.or_put("labelSelector.matchExpressions", Value::Array(vec![]));
            if let Some(Value::Array(list)) = term.at_mut("labelSelector.matchExpressions") {
                list.extend(found);
            }
        }
    };
    for side in ["podAffinity", "podAntiAffinity"] {
        let path = format!("spec.affinity.{side}");
        pod.items_mut(&format!("{path}.requiredDuringSchedulingIgnoredDuringExecution"))
            .iter_mut()
            .for_each(merge);
        pod.items_mut(&format!("{path}.preferredDuringSchedulingIgnoredDuringExecution"))
            .iter_mut()
            .filter_map(|weighted| weighted.at_mut("podAffinityTerm"))
            .for_each(merge);
    }
    pod.items_mut("spec.topologySpreadConstraints").iter_mut().for_each(merge);
}
