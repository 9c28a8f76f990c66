//! Groups of pods that are scheduled together: what a PodGroup may be made from, and that the size of a gang is fixed.

use serde_json::Value;

use super::{Request, forbid};
use crate::error::ApiError;
use crate::life::Ops;
use crate::meta;
use crate::store::{Key, ShelfId};

const GROUP: &str = "scheduling.k8s.io";

/// PodGroupWorkloadExists: a PodGroup that names a template of a Workload needs both.
pub(super) fn check_template(ops: &Ops<'_>, request: &Request<'_>, group: &Value) -> Result<(), ApiError> {
    let reference = &group["spec"]["podGroupTemplateRef"]["workload"];
    if !request.creates(GROUP, "podgroups") || reference.is_null() {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, template) = (text(&reference["workloadName"]), text(&reference["podGroupTemplateName"]));
    let refuse = |why: String| Err(forbid(ops, group, &format!("PodGroup rejected: {why}")));
    let Some(workload) = find(ops, "workloads", meta::text(group, "namespace"), &name) else {
        return refuse(format!("Workload {name:?} not found"));
    };
    if !meta::text(&workload, "deletionTimestamp").is_empty() {
        return refuse(format!("Workload {name:?} is being deleted"));
    }
    let mut templates = workload["spec"]["podGroupTemplates"].as_array().into_iter().flatten();
    match templates.any(|present| present["name"] == template.as_str()) {
        true => Ok(()),
        false => refuse(format!("PodGroupTemplate {template:?} not found in Workload {name:?}")),
    }
}

/// JobValidation: the parallelism of a Job does not change while its pods are scheduled as a gang.
pub(super) fn check_parallelism(
    ops: &Ops<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(old) = old.filter(|_| request.updates("batch", "jobs", None)) else { return Ok(()) };
    let is_open = |gate: &str| ops.server.options.feature_gates.contains(gate);
    let is_same = new["spec"]["parallelism"] == old["spec"]["parallelism"];
    if is_same || !is_open("GenericWorkload") && !is_open("WorkloadWithJob") {
        return Ok(());
    }
    let namespace = meta::text(old, "namespace");
    let is_gang = |group: &Value| !group["spec"]["schedulingPolicy"]["gang"].is_null();
    let gang = match old["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"].as_str() {
        Some(name) => find(ops, "podgroups", namespace, name).filter(is_gang),
        None => {
            let groups = ops.server.store.all(&ShelfId::new(GROUP, "podgroups"), Some(namespace));
            let is_own = |group: &Value| is_controlled_by(group, meta::text(old, "uid"));
            groups.iter().map(|entry| entry.value()).find(|group| is_own(group) && is_gang(group))
        }
    };
    match gang {
        None => Ok(()),
        Some(gang) => {
            let name = meta::text(&gang, "name");
            let why =
                format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {name:?}");
            Err(forbid(ops, new, &why))
        }
    }
}

fn find(ops: &Ops<'_>, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let entry = ops.server.store.get(&ShelfId::new(GROUP, plural), &Key::new(namespace, name))?;
    Some(entry.value())
}

fn is_controlled_by(object: &Value, uid: &str) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["uid"] == uid)
}
