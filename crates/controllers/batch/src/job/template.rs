//! The pods of a Job as they are sent to the server. Pure.

use flyball_api::{Job, OwnerReference};
use flyball_common::pods;
use serde_json::{Value, json};

use super::plan::NewPod;
use super::view::{COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, TRACKING_FINALIZER};

/// The environment variable with the index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix of a generated name: the server adds five characters, and a label has at most 63.
const LONGEST_PREFIX: usize = 58;

/// The common part of all pods of a Job.
pub fn common(job: &Job, owner: &OwnerReference, group: Option<&str>) -> Value {
    let mut pod = pods::from_template(&job.spec.template, &job.metadata.name, owner);
    if let Some(group) = group {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    let finalizers = &mut pod["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        None => *finalizers = json!([TRACKING_FINALIZER]),
        Some(held) if held.iter().any(|one| one == TRACKING_FINALIZER) => {}
        Some(held) => held.push(TRACKING_FINALIZER.into()),
    }
    if job.spec.is_indexed() {
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                name_index(container);
            }
            // Looking up a missing list has inserted a null.
            if let Some(spec) = pod["spec"].as_object_mut().filter(|spec| spec[list].is_null()) {
                spec.remove(list);
            }
        }
    }
    pod
}

/// One pod: the common part, and the fields of its index.
pub fn pod(job: &Job, common: &Value, new: &NewPod) -> Value {
    let mut pod = common.clone();
    let Some(index) = new.index else { return pod };
    let name = &job.metadata.name;
    pod["metadata"]["generateName"] = prefix(name, index).into();
    pod["metadata"]["labels"][COMPLETION_INDEX] = index.to_string().into();
    pod["metadata"]["annotations"][COMPLETION_INDEX] = index.to_string().into();
    if let Some((counted, ignored)) = new.failures {
        pod["metadata"]["annotations"][INDEX_FAILURES] = counted.to_string().into();
        if ignored > 0 {
            pod["metadata"]["annotations"][INDEX_IGNORED_FAILURES] = ignored.to_string().into();
        }
    }
    pod["spec"]["hostname"] = format!("{name}-{index}").into();
    pod
}

/// The name prefix of the pods of an index. If it is too long, the name of the Job is cut.
pub fn prefix(job: &str, index: u32) -> String {
    let end = format!("-{index}-");
    let room = LONGEST_PREFIX - end.len();
    format!("{}{end}", job.get(..room.min(job.len())).unwrap_or(job))
}

/// Adds the index to the environment of a container, unless it has a variable of that name.
fn name_index(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    if variables.is_null() {
        *variables = json!([]);
    }
    let Some(variables) = variables.as_array_mut() else { return };
    if variables.iter().all(|variable| variable["name"] != INDEX_VARIABLE) {
        let path = format!("metadata.labels['{COMPLETION_INDEX}']");
        variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    }
}
