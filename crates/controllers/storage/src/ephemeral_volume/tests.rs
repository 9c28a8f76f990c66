//! Tables for which claims are made and which pods are looked at.

use std::sync::Arc;

use flyball_api::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::plan::{Action, claim_key, plan};
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
fn a_claim_is_made_from_the_template_and_owned_by_the_pod() {
    let pod = pod(scratch());
    let [volume] = &pod.spec.volumes[..] else { panic!("one volume is of interest") };
    assert_eq!(claim_key(&pod, volume).unwrap().to_string(), "ns/app-scratch");
    let Some(Action::Create(claim)) = plan(&pod, volume, None) else { panic!("a claim is missing") };
    assert_eq!(claim["metadata"]["name"], "app-scratch");
    assert_eq!(claim["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(claim["metadata"]["annotations"], json!({"c": "d"}));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u1");
    assert_eq!(claim["spec"]["new"], 1, "fields we do not know are passed on");
}

#[test]
fn a_claim_that_is_there_is_the_pods_or_in_the_way() {
    let pod = pod(scratch());
    let volume = &pod.spec.volumes[0];
    assert_eq!(plan(&pod, volume, Some(&claim("u1"))), None);
    let why = "PVC ns/app-scratch was not created for pod ns/app (pod is not owner)";
    assert_eq!(plan(&pod, volume, Some(&claim("u0"))), Some(Action::Refuse(why.into())));
}

#[test]
fn only_new_pods_with_ephemeral_volumes_are_looked_at() {
    let going = |mut pod: Pod| {
        pod.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
        pod
    };
    let renewed = |mut pod: Pod| {
        pod.metadata.uid = "u2".into();
        pod
    };
    #[rustfmt::skip]
    let table = [
        // case                    before                after                        looked at
        ("new",                    None,                 pod(scratch()),              true),
        ("changed",                Some(pod(scratch())), pod(scratch()),              false),
        ("another of its name",    Some(pod(scratch())), renewed(pod(scratch())),     true),
        ("going",                  None,                 going(pod(scratch())),       false),
        ("no ephemeral volume",    None,                 pod(json!([])),              false),
    ];
    for (case, old, new, want) in table {
        let (old, new) = (old.map(Arc::new), Arc::new(new));
        let change = Change { old: old.as_ref(), new: Some(&new), origin: Origin::Watch };
        assert_eq!(pod_changed(&change).is_some(), want, "{case}");
    }
}
