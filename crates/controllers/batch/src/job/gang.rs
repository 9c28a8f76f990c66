//! The Workload and the PodGroup of a gang: a Job whose pods are to be scheduled all together (`WorkloadWithJob`). Pure.
//!
//! A sync creates at most one of the two and then returns. The new object triggers the next sync, which finds it in the cache.
//! So no pod is created before the PodGroup that its `spec.schedulingGroup` names.

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

/// The API server accepts no longer names.
pub const MAX_NAME_LENGTH: usize = 253;

/// Workloads by the namespace and name of the Job that their `spec.controllerRef` names.
pub const BY_JOB: Index<Workload> = Index::new("job", |workload, emit| {
    let controller = workload.spec.controller_ref.as_ref();
    if let Some(job) = controller.filter(|it| it.api_group == "batch" && it.kind == "Job") {
        emit(&Key::new(workload.metadata.namespace.as_str(), job.name.as_str()).to_string());
    }
});

/// PodGroups by the namespace and name of the Workload that their `spec.podGroupTemplateRef` names.
pub const BY_WORKLOAD: Index<PodGroup> = Index::new("workload", |group, emit| {
    if let Some(name) = group.spec.workload_template().map(|template| &template.workload_name) {
        emit(&Key::new(group.metadata.namespace.as_str(), name.as_str()).to_string());
    }
});

/// Everything that [`plan`] depends on.
pub struct View<'a> {
    pub job: &'a Job,
    /// Whether the Job controls any pods.
    pub has_pods: bool,
    /// The Workloads whose controllerRef is the Job, by name: it may be an earlier Job of the same name.
    pub workloads: &'a [Arc<Workload>],
    /// The PodGroups that reference one of these Workloads.
    pub groups: &'a [Arc<PodGroup>],
}

/// Whether the pods of a Job belong to a PodGroup, which the scheduler schedules as a whole.
#[derive(Debug)]
pub enum Scheduling {
    /// The pods are created without a PodGroup, for this reason.
    WithoutGroup(&'static str),
    /// The pods are created in the PodGroup of this name.
    InGroup(SmolStr),
    /// First this Workload or PodGroup has to be created; no pods are created before a later sync finds it in the cache.
    CreateFirst(Box<Write>),
}

/// Whether a Job is a gang. It is Indexed, has more than one completion, runs as many pods in parallel as it has completions,
/// is not being deleted, and its pod template does not set `schedulingGroup`.
pub fn is_gang(job: &Job) -> bool {
    let spec = &job.spec;
    let runs_all_at_once =
        spec.parallelism.is_some_and(|count| count > 1) && spec.completions == spec.parallelism;
    spec.is_indexed()
        && runs_all_at_once
        && !job.metadata.is_deleting()
        && !template_has_scheduling_group(job)
}

/// Reads the raw template, since the slim pod template has no `schedulingGroup`.
fn template_has_scheduling_group(job: &Job) -> bool {
    let template = job.spec.template.raw().to_value();
    template.pointer("/spec/schedulingGroup").is_some_and(|group| !group.is_null())
}

/// Decides how the pods of a gang are scheduled. An existing Workload or PodGroup is used only if it is the only one and the Job
/// is its controller; otherwise pods are created without a PodGroup.
pub fn plan(view: &View<'_>) -> Scheduling {
    let workload = match view.workloads {
        [] if never_started(view) => return create_workload(view.job),
        [] => return Scheduling::WithoutGroup("the Job started without a Workload"),
        [workload] => workload,
        _ => return Scheduling::WithoutGroup("more than one Workload references the Job"),
    };
    let is_own = |meta: &ObjectMeta| meta.is_controlled_by(&view.job.metadata.uid);
    if !is_own(&workload.metadata) {
        return Scheduling::WithoutGroup("the Job is not the controller of the Workload");
    }
    let [template] = workload.spec.pod_group_templates.as_slice() else {
        return Scheduling::WithoutGroup("the Workload does not have exactly one podGroupTemplate");
    };
    match view.groups {
        [] => create_group(view.job, workload, template),
        [group] if is_own(&group.metadata) => Scheduling::InGroup(group.metadata.name.clone()),
        [_] => Scheduling::WithoutGroup("the Job is not the controller of the PodGroup"),
        _ => Scheduling::WithoutGroup("more than one PodGroup references the Workload"),
    }
}

/// Whether the Job never had pods, so that none can have been scheduled without a PodGroup. Looking at its pods and at
/// `status.startTime` is not enough: pods may have been deleted since, and suspending a Job clears `startTime`. Finished pods
/// remain in the counters of the status, and a suspension leaves the Suspended condition.
pub fn never_started(view: &View<'_>) -> bool {
    let status = &view.job.status;
    let was_suspended = status.conditions.iter().any(|condition| condition.type_ == SUSPENDED);
    let has_finished_pods = status.succeeded != 0 || status.failed != 0;
    !view.has_pods && status.start_time.is_none() && !has_finished_pods && !was_suspended
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
    Scheduling::CreateFirst(Box::new(write))
}

fn create_group(job: &Job, workload: &Workload, template: &PodGroupTemplate) -> Scheduling {
    let (namespace, workload_meta) = (&job.metadata.namespace, &workload.metadata);
    let name = group_name(&workload_meta.name, &template.name);
    // A plain owner, not the controller. It does not block the deletion of the Workload, so deleting the Workload in the
    // foreground does not wait for the PodGroup.
    let workload_owner =
        OwnerReference { controller: None, block_owner_deletion: None, ..controller_reference(workload) };
    let reference = WorkloadTemplateReference {
        workload_name: workload_meta.name.clone(),
        pod_group_template_name: template.name.clone(),
    };
    let body = json!({
        "apiVersion": PodGroup::TYPE.api_version(), "kind": PodGroup::TYPE.kind,
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [controller_reference(job), workload_owner]},
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": template.scheduling_policy.to_value(),
        },
    });
    let write = Write::create::<PodGroup>(Key::new(namespace.as_str(), name), body)
        .why("the pods of the Job are to be scheduled together");
    Scheduling::CreateFirst(Box::new(write))
}

/// The name of the Workload of a Job: the name of the Job and a hash of its uid. Upstream hashes Go's dump of a value of the type
/// `types.UID`, which puts `(types.UID)` before the uid; an equal name makes the create idempotent between the two managers.
pub fn workload_name(job: &Job) -> String {
    let hash = suffix(&format!("(types.UID){}", job.metadata.uid));
    format!("{}-{hash}", truncate(&job.metadata.name, MAX_NAME_LENGTH - hash.len() - 1))
}

/// The name of the PodGroup of a podGroupTemplate: `WORKLOAD-TEMPLATE-HASH`, where the hash is of both full names. If this would
/// be too long, the two names share the room that the hash leaves: a name that needs at most half of it is kept as it is and the
/// other one is truncated to the rest; otherwise both are truncated to half.
pub fn group_name(workload: &str, template: &str) -> String {
    let hash = suffix(&format!("{workload}{template}"));
    let room = MAX_NAME_LENGTH - hash.len() - 2;
    let half = room / 2;
    let workload_length = if template.len() <= half { room - template.len() } else { room - half };
    let workload = truncate(workload, workload_length);
    format!("{workload}-{}-{hash}", truncate(template, room - workload.len()))
}

fn suffix(text: &str) -> String {
    safe_encode(&fnv32a(text.as_bytes()).to_string())
}

/// The first `length` bytes, which are characters, since names are ASCII.
fn truncate(name: &str, length: usize) -> &str {
    name.get(..length).unwrap_or(name)
}
