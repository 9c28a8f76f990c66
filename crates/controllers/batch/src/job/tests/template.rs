use flyball_common::adoption::controller_reference;
use serde_json::json;

use super::world::{indexed, job};
use crate::job::plan::NewPod;
use crate::job::template::{common, pod};

#[test]
fn a_pod_has_the_template_and_a_finalizer() {
    let job = job(json!({}));
    let common = common(&job, &controller_reference(&job), None);
    let made = pod(&job, &common, &NewPod::default());
    assert_eq!(made["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(made["metadata"]["generateName"], "j-");
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "uid-j");
    assert_eq!(made["spec"], json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}));
}

#[test]
fn an_index_is_set_in_labels_annotations_host_name_and_environment() {
    let job = indexed(json!({}));
    let common = common(&job, &controller_reference(&job), None);
    let made = pod(&job, &common, &NewPod { index: Some(3), failures: Some((2, 1)) });
    let meta = &made["metadata"];
    assert_eq!(meta["generateName"], "j-3-");
    assert_eq!(meta["labels"]["batch.kubernetes.io/job-completion-index"], "3");
    assert_eq!(
        meta["annotations"],
        json!({
            "batch.kubernetes.io/job-completion-index": "3",
            "batch.kubernetes.io/job-index-failure-count": "2",
            "batch.kubernetes.io/job-index-ignored-failure-count": "1",
        })
    );
    assert_eq!(made["spec"]["hostname"], "j-3");
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    assert_eq!(made["spec"]["containers"][0]["env"], json!([variable]));
    assert!(made["spec"].get("initContainers").is_none());
}

#[test]
fn a_pod_of_a_gang_names_its_group() {
    let job = indexed(json!({}));
    let made = common(&job, &controller_reference(&job), Some("g"));
    assert_eq!(made["spec"]["schedulingGroup"], json!({"podGroupName": "g"}));
    assert_eq!(made["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_long_job_name_is_cut_before_the_index() {
    let mut job = indexed(json!({}));
    job.metadata.name = "x".repeat(63).into();
    let common = common(&job, &controller_reference(&job), None);
    let made = pod(&job, &common, &NewPod { index: Some(10), failures: None });
    assert_eq!(made["metadata"]["generateName"], format!("{}-10-", "x".repeat(54)));
}
