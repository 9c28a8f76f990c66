//! The Workload and the PodGroup of a gang: a Job whose pods are to be scheduled all together (`WorkloadWithJob`). Pure.
//!
//! A sync creates at most one of them and ends with that. The trigger of the created object starts the next sync, which finds
//! it in the cache. So no pod is created before the group that it names.

use std::sync::Arc;

use flyball_api::hash::{fnv32a, safe_encode};
use flyball_api::job::SUSPENDED;
use flyball_api::pod_group::WorkloadTemplateReference;
use flyball_api::workload::PodGroupTemplate;
use flyball_api::{Job, Key, ObjectMeta, OwnerReference, PodGroup, Resource, Workload};
use flyball_cache::Index;
use flyball_common::adoption::controller_reference;
use flyball_runtime::{Event, Write};
use serde_json::json;
use smol_str::SmolStr;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Workloads by the namespace and name of the Job that they are about.
pub const BY_JOB: Index<Workload> = Index::new("job", |workload, emit| {
    let about = workload.spec.controller_ref.as_ref();
    if let Some(job) = about.filter(|about| about.api_group == "batch" && about.kind == "Job") {
        emit(&Key::new(workload.metadata.namespace.as_str(), job.name.as_str()).to_string());
    }
});

/// PodGroups by the namespace and name of the Workload that they were made from.
pub const BY_WORKLOAD: Index<PodGroup> = Index::new("workload", |group, emit| {
    if let Some(name) = group.spec.made_from().map(|template| &template.workload_name) {
        emit(&Key::new(group.metadata.namespace.as_str(), name.as_str()).to_string());
    }
});

/// What the decision looks at.
pub struct View<'a> {
    pub job: &'a Job,
    /// Whether it controls pods.
    pub has_pods: bool,
    /// The Workloads that are about a Job of this name.
    pub workloads: &'a [Arc<Workload>],
    /// The PodGroups that were made from those.
    pub groups: &'a [Arc<PodGroup>],
}

/// How the pods of a Job are scheduled.
#[derive(Debug)]
pub enum Scheduling {
    /// One by one, for this reason.
    Separately(&'static str),
    /// With the PodGroup of this name.
    Together(SmolStr),
    /// Not before this write is made and seen.
    After(Box<Write>),
}

/// Whether a Job is a gang: each of its indexes has a pod from the start, and the pods name no group of their own. A Job that
/// is being deleted needs no Workload.
pub fn is_gang(job: &Job) -> bool {
    let spec = &job.spec;
    let is_fixed = spec.parallelism.is_some_and(|count| count > 1) && spec.completions == spec.parallelism;
    spec.is_indexed() && is_fixed && !job.metadata.is_deleting() && !names_group(job)
}

/// Whether the template names a group. This is not among the fields that are read from every template.
fn names_group(job: &Job) -> bool {
    let template = job.spec.template.raw().to_value();
    template.pointer("/spec/schedulingGroup").is_some_and(|group| !group.is_null())
}

/// How the pods of a gang are scheduled. What others have made for the Job is used only if the Job controls it and if there is
/// exactly one of it.
pub fn plan(view: &View<'_>) -> Scheduling {
    let workload = match view.workloads {
        [] if is_new(view) => return create_workload(view.job),
        [] => return Scheduling::Separately("the Job began without a Workload"),
        [workload] => workload,
        _ => return Scheduling::Separately("several Workloads are about the Job"),
    };
    let is_own = |meta: &ObjectMeta| meta.is_controlled_by(&view.job.metadata.uid);
    if !is_own(&workload.metadata) {
        return Scheduling::Separately("the Job does not control the Workload");
    }
    let [template] = workload.spec.pod_group_templates.as_slice() else {
        return Scheduling::Separately("the Workload does not have exactly one template");
    };
    match view.groups {
        [] => create_group(view.job, workload, template),
        [group] if is_own(&group.metadata) => Scheduling::Together(group.metadata.name.clone()),
        [_] => Scheduling::Separately("the Job does not control the PodGroup"),
        _ => Scheduling::Separately("several PodGroups were made from the Workload"),
    }
}

/// Whether the Job has never begun, so that none of its pods was scheduled without a group. Its pods may be gone, and the start
/// time is cleared by a suspension, which leaves a condition.
pub fn is_new(view: &View<'_>) -> bool {
    let status = &view.job.status;
    let was_suspended = status.conditions.iter().any(|condition| condition.type_ == SUSPENDED);
    let has_ended = status.succeeded != 0 || status.failed != 0;
    !view.has_pods && status.start_time.is_none() && !has_ended && !was_suspended
}

fn create_workload(job: &Job) -> Scheduling {
    let meta = &job.metadata;
    let name = workload_name(job);
    let gang = json!({"gang": {"minCount": job.spec.parallelism}});
    let body = json!({
        "apiVersion": Workload::TYPE.api_version(), "kind": Workload::TYPE.kind,
        "metadata": {"name": name, "namespace": meta.namespace, "ownerReferences": [controller_reference(job)]},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": meta.name},
            "podGroupTemplates": [{"name": format!("{}-pgt-0", meta.name), "schedulingPolicy": gang}],
        },
    });
    let created = Event::normal("WorkloadCreated", format!("Created Workload {name} for Job {}", meta.name));
    let write = Write::create::<Workload>(Key::new(meta.namespace.as_str(), name), body)
        .why("the pods of the Job are to be scheduled together")
        .on_success(created);
    Scheduling::After(Box::new(write))
}

fn create_group(job: &Job, workload: &Workload, template: &PodGroupTemplate) -> Scheduling {
    let (namespace, made_from) = (&job.metadata.namespace, &workload.metadata);
    let name = group_name(&made_from.name, &template.name);
    // Neither deletion waits for the other.
    let second =
        OwnerReference { controller: None, block_owner_deletion: None, ..controller_reference(workload) };
    let reference = WorkloadTemplateReference {
        workload_name: made_from.name.clone(),
        pod_group_template_name: template.name.clone(),
    };
    let body = json!({
        "apiVersion": PodGroup::TYPE.api_version(), "kind": PodGroup::TYPE.kind,
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [controller_reference(job), second]},
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template.scheduling_policy.to_value(),
        },
    });
    let write = Write::create::<PodGroup>(Key::new(namespace.as_str(), name), body)
        .why("the pods of the Job are to be scheduled together");
    Scheduling::After(Box::new(write))
}

/// The name of the Workload of a Job: that of the Job, and a hash of its uid as upstream prints it.
pub fn workload_name(job: &Job) -> String {
    let hash = suffix(&format!("(types.UID){}", job.metadata.uid));
    format!("{}-{hash}", cut(&job.metadata.name, LONGEST_NAME - hash.len() - 1))
}

/// The name of the PodGroup of a template: both names and a hash of them. Of names that are too long together, each keeps at
/// least a half.
pub fn group_name(workload: &str, template: &str) -> String {
    let hash = suffix(&format!("{workload}{template}"));
    let room = LONGEST_NAME - hash.len() - 2;
    let half = room / 2;
    let of_workload = if template.len() <= half { room - template.len() } else { room - half };
    let workload = cut(workload, of_workload);
    format!("{workload}-{}-{hash}", cut(template, room - workload.len()))
}

fn suffix(text: &str) -> String {
    safe_encode(&fnv32a(text.as_bytes()).to_string())
}

/// The first `length` characters; names are ASCII.
fn cut(name: &str, length: usize) -> &str {
    name.get(..length).unwrap_or(name)
}
