//! Tables for which claims are created and which pods are synced.

use std::sync::Arc;

use flyball_api::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::plan::{View, claim_key, plan};
use super::triggers::pod_changed;

fn pod(volumes: Value) -> Pod {
    let meta = json!({"namespace": "ns", "name": "app", "uid": "u1"});
    serde_json::from_value(json!({"metadata": meta, "spec": {"volumes": volumes}})).unwrap()
}

fn scratch() -> Value {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "new": 1},
    });
    json!([{"name": "tmp", "emptyDir": {}}, {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
}

fn claim(owner: &str) -> PersistentVolumeClaim {
    let owners =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": owner, "controller": true}]);
    let meta = json!({"namespace": "ns", "name": "app-scratch", "ownerReferences": owners});
    serde_json::from_value(json!({ "metadata": meta })).unwrap()
}

#[test]
fn a_claim_is_created_from_the_template_and_owned_by_the_pod() {
    let pod = pod(scratch());
    let [volume] = &pod.spec.volumes[..] else { panic!("one volume is of interest") };
    assert_eq!(claim_key(&pod, volume).unwrap().to_string(), "ns/app-scratch");
    let plan = plan(&View { pod: &pod, claims: &[] });
    assert_eq!(
        plan.to_string(),
        "create PersistentVolumeClaim ns/app-scratch: an ephemeral volume of the pod needs it\n  \
         else event Warning FailedBinding: ephemeral volume scratch: create PVC app-scratch: <error>"
    );
    let claim = plan.writes()[0].body().unwrap();
    assert_eq!(claim["metadata"]["name"], "app-scratch");
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(claim["metadata"]["annotations"], json!({"c": "d"}));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u1");
    assert_eq!(claim["spec"]["new"], 1, "unknown fields are passed on");
}

#[test]
fn an_existing_claim_belongs_to_the_pod_or_is_a_failure() {
    let mut pod = pod(scratch());
    let planned =
        |pod: &Pod, claim: PersistentVolumeClaim| plan(&View { pod, claims: &[Arc::new(claim)] }).to_string();
    assert_eq!(planned(&pod, claim("u1")), "");
    let why = "PVC ns/app-scratch was not created for pod ns/app (pod is not owner)";
    assert_eq!(
        planned(&pod, claim("u0")),
        format!(
            "event Warning FailedBinding: ephemeral volume scratch: {why}\nfail: {why}\n\
             waiting for PersistentVolumeClaim/ns/app-scratch to be deleted, as it does not belong to the pod"
        )
    );
    pod.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
    assert_eq!(planned(&pod, claim("u0")), "", "a pod that is being deleted needs no claims");
}

#[test]
fn only_new_pods_with_ephemeral_volumes_are_synced() {
    let deleted = |mut pod: Pod| {
        pod.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
        pod
    };
    let renewed = |mut pod: Pod| {
        pod.metadata.uid = "u2".into();
        pod
    };
    #[rustfmt::skip]
    let table = [
        // case                    before                after                        synced
        ("new",                    None,                 pod(scratch()),              true),
        ("changed",                Some(pod(scratch())), pod(scratch()),              false),
        ("another of its name",    Some(pod(scratch())), renewed(pod(scratch())),     true),
        ("being deleted",              None,                 deleted(pod(scratch())),       false),
        ("no ephemeral volume",    None,                 pod(json!([])),              false),
    ];
    for (case, old, new, want) in table {
        let (old, new) = (old.map(Arc::new), Arc::new(new));
        let change = Change { old: old.as_ref(), new: Some(&new), origin: Origin::Watch };
        assert_eq!(pod_changed(&change).is_some(), want, "{case}");
    }
}
