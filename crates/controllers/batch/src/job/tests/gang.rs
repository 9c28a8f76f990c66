use std::sync::Arc;

use flyball_api::{Job, PodGroup, Workload};
use flyball_cache::Store;
use flyball_runtime::plan::Operation;
use serde_json::{Value, json};

use super::world::indexed;
use crate::job::gang::{BY_JOB, BY_WORKLOAD, Scheduling, View, group_name, is_gang, plan, workload_name};
use crate::job::invariants;

/// An Indexed Job named `j` with two pods that never started, changed by `spec`.
fn gang(spec: Value) -> Job {
    let mut whole = json!({"completions": 2, "status": {"startTime": null}});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    indexed(whole)
}

fn owner(word: Option<&str>) -> Value {
    match word {
        Some("own") => {
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": true}])
        }
        Some("foreign") => {
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "before", "controller": true}])
        }
        _ => json!([]),
    }
}

/// A Workload from `name:owner:template+template`.
fn workload(text: &str) -> Arc<Workload> {
    let mut words = text.split(':');
    let (name, owners) = (words.next().unwrap(), owner(words.next()));
    let template = |name| json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 7}}});
    let templates: Vec<_> = words.next().unwrap_or("t").split('+').map(template).collect();
    let object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "ownerReferences": owners},
        "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": templates},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A PodGroup from `name:owner`.
fn group(text: &str) -> Arc<PodGroup> {
    let (name, owner_word) = text.split_once(':').unwrap_or((text, ""));
    let metadata = json!({"name": name, "namespace": "ns", "ownerReferences": owner(Some(owner_word))});
    Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
}

fn decided(job: &Job, has_pods: bool, workloads: &str, groups: &str) -> Scheduling {
    let workloads: Vec<_> = workloads.split_whitespace().map(workload).collect();
    let groups: Vec<_> = groups.split_whitespace().map(group).collect();
    let view = View { job, has_pods, workloads: &workloads, groups: &groups };
    let scheduling = plan(&view);
    invariants::check_gang(&view, &scheduling).unwrap();
    scheduling
}

/// `create Kind`, `in GROUP`, or the reason why the pods have no PodGroup.
fn decision(job: &Job, has_pods: bool, workloads: &str, groups: &str) -> String {
    match decided(job, has_pods, workloads, groups) {
        Scheduling::WithoutGroup(reason) => reason.to_owned(),
        Scheduling::InGroup(group) => format!("in {group}"),
        Scheduling::CreateFirst(write) => format!("create {}", write.resource.kind),
    }
}

#[test]
fn a_gang_runs_a_pod_for_every_index_at_once() {
    let with_group = json!({"metadata": {"labels": {"app": "work"}}, "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": []}});
    #[rustfmt::skip]
    let table = [
        // case                              spec                                             a gang
        ("all at once",                      json!({}),                                       true),
        ("suspended",                        json!({"suspend": true}),                        true),
        ("not Indexed",                      json!({"completionMode": "NonIndexed"}),         false),
        ("fewer at once",                    json!({"completions": 3}),                       false),
        ("no completions",                   json!({"completions": null}),                    false),
        ("one pod",                          json!({"completions": 1, "parallelism": 1}),     false),
        ("no parallelism",                   json!({"parallelism": null}),                    false),
        ("template with schedulingGroup",     json!({"template": with_group}),                 false),
        ("being deleted",                    json!({"deleting": true}),                       false),
    ];
    for (case, spec, want) in table {
        assert_eq!(is_gang(&gang(spec)), want, "{case}");
    }
}

#[test]
fn only_a_job_that_never_started_gets_a_workload() {
    let suspended = json!([{"type": "Suspended", "status": "False"}]);
    let started = "the Job started without a Workload";
    #[rustfmt::skip]
    let table = [
        // case              status                                      pods    decision
        ("new",              json!({}),                                  false,  "create Workload"),
        ("has pods",         json!({}),                                  true,   started),
        ("has started",      json!({"startTime": "2026-01-01T00:00:00Z"}), false,  started),
        ("had successes",    json!({"succeeded": 1}),                    false,  started),
        ("had failures",     json!({"failed": 1}),                       false,  started),
        ("was suspended",    json!({"conditions": suspended}),           false,  started),
    ];
    for (case, mut status, has_pods, want) in table {
        if status.get("startTime").is_none() {
            status["startTime"] = json!(null);
        }
        assert_eq!(decision(&gang(json!({"status": status})), has_pods, "", ""), want, "{case}");
    }
}

#[test]
fn pods_are_in_a_group_if_the_job_controls_the_only_workload_and_its_only_group() {
    #[rustfmt::skip]
    let table = [
        // case                        Workloads            PodGroups        decision
        ("no group yet",               "w:own",             "",              "create PodGroup"),
        ("all there",                  "w:own",             "g:own",         "in g"),
        ("not owned",                  "w",                 "",              "the Job is not the controller of the Workload"),
        ("of an earlier Job",          "w:foreign",         "g:own",         "the Job is not the controller of the Workload"),
        ("two Workloads",              "w:own x:own",       "g:own",         "more than one Workload references the Job"),
        ("two templates",              "w:own:a+b",         "g:own",         "the Workload does not have exactly one podGroupTemplate"),
        ("group not owned",            "w:own",             "g",             "the Job is not the controller of the PodGroup"),
        ("group of an earlier Job",    "w:own",             "g:foreign",     "the Job is not the controller of the PodGroup"),
        ("two groups",                 "w:own",             "g:own h:own",   "more than one PodGroup references the Workload"),
    ];
    for (case, workloads, groups, want) in table {
        // A Job that has started keeps its group.
        for has_pods in [false, true] {
            assert_eq!(decision(&gang(json!({})), has_pods, workloads, groups), want, "{case}");
        }
    }
}

#[test]
fn both_objects_belong_to_the_job() {
    let job = gang(json!({}));
    let body = |scheduling| match scheduling {
        Scheduling::CreateFirst(write) => match write.operation {
            Operation::Create(body) => {
                (write.key.to_string(), body.value(), format!("{:?}", write.on_success))
            }
            _ => panic!("not a creation"),
        },
        other => panic!("{other:?}"),
    };
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j",
        "controller": true, "blockOwnerDeletion": true});
    let (key, made, events) = body(decided(&job, false, "", ""));
    assert_eq!(key, "ns/j-79f7f4f4b8");
    assert_eq!(
        made,
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": {"name": "j-79f7f4f4b8", "namespace": "ns", "ownerReferences": [owner]},
            "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
                "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": {"gang": {"minCount": 2}}}]}})
    );
    assert!(events.contains("Created Workload j-79f7f4f4b8 for Job j"), "{events}");
    let (_, made, events) = body(decided(&job, false, "w:own", ""));
    let workload_owner =
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": "w", "uid": "uid-w"});
    assert_eq!(
        made,
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": group_name("w", "t"), "namespace": "ns", "ownerReferences": [owner, workload_owner]},
            "spec": {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                "schedulingPolicy": {"gang": {"minCount": 7}}}})
    );
    assert_eq!(events, "[]");
}

/// The hashes were computed with upstream's packages.
#[test]
fn names_end_in_a_hash_and_fit() {
    let named = |uid: &str, name: &str| {
        let mut job = gang(json!({}));
        (job.metadata.uid, job.metadata.name) = (uid.into(), name.into());
        workload_name(&job)
    };
    let uid = "5b0e3f1c-0f7f-4a63-9d5e-6a4c8a8f2f11";
    assert_eq!(named(uid, "train"), "train-686c85f66f");
    assert_eq!(named(uid, &"x".repeat(253)), format!("{}-686c85f66f", "x".repeat(242)));
    #[rustfmt::skip]
    let table = [
        // lengths of Workload and template   what is left of them, and the hash
        ((10, 10),                            (10, 10),   "77f9f7c4c"),
        ((200, 41),                           (200, 41),  "69dc59c7f"),
        ((253, 41),                           (202, 41),  "666d7dfd"),
        ((10, 253),                           (10, 231),  "5cdbbf4b97"),
        ((253, 253),                          (121, 120), "77f77f457d"),
    ];
    let names = |(workload, template): (usize, usize)| ("w".repeat(workload), "t".repeat(template));
    for (lengths, left, hash) in table {
        let ((workload, template), (short_workload, short_template)) = (names(lengths), names(left));
        assert_eq!(group_name(&workload, &template), format!("{short_workload}-{short_template}-{hash}"));
    }
}

#[test]
fn workloads_are_found_by_their_job_and_groups_by_their_workload() {
    let named = |name: &str, about: Value| {
        let metadata = json!({"name": name, "namespace": "ns"});
        serde_json::from_value::<Workload>(json!({"metadata": metadata, "spec": {"controllerRef": about}}))
            .unwrap()
    };
    let workloads = Store::from_iter([
        named("a", json!({"apiGroup": "batch", "kind": "Job", "name": "j"})),
        named("b", json!({"apiGroup": "batch", "kind": "Job", "name": "k"})),
        named("c", json!({"apiGroup": "batch", "kind": "CronJob", "name": "j"})),
        named("d", json!({"apiGroup": "example.com", "kind": "Job", "name": "j"})),
        named("e", json!(null)),
    ]);
    let found = workloads.by(&BY_JOB, "ns/j");
    assert_eq!(found.iter().map(|found| found.metadata.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let made_from = |name: &str, workload: Value| {
        let metadata = json!({"name": name, "namespace": "ns"});
        let spec = json!({"podGroupTemplateRef": workload, "schedulingPolicy": {}});
        serde_json::from_value::<PodGroup>(json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    let groups = Store::from_iter([
        made_from("a", json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}})),
        made_from("b", json!({"workload": {"workloadName": "x", "podGroupTemplateName": "t"}})),
        made_from("c", json!({"workload": null})),
        made_from("d", json!(null)),
    ]);
    let found = groups.by(&BY_WORKLOAD, "ns/w");
    assert_eq!(found.iter().map(|found| found.metadata.name.as_str()).collect::<Vec<_>>(), ["a"]);
}
