//! Tables for what the driver decides.

use flyball_api::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use serde_json::{Value, json};

use super::plan::{self, DRIVER, growth, is_unwanted, volume_for};

fn claim(annotations: Value, spec: Value, status: Value) -> PersistentVolumeClaim {
    let mut whole = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
        "resources": {"requests": {"storage": "1Gi"}},
    });
    if let (Some(whole), Value::Object(spec)) = (whole.as_object_mut(), spec) {
        whole.extend(spec);
    }
    let metadata = json!({"namespace": "ns", "name": "data", "uid": "u-1", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole, "status": status})).unwrap()
}

fn class() -> StorageClass {
    serde_json::from_value(plan::class()).unwrap()
}

#[test]
fn a_claim_gets_a_volume_once_its_pod_has_a_node() {
    let provisioner = "volume.kubernetes.io/storage-provisioner";
    let selected = "volume.kubernetes.io/selected-node";
    #[rustfmt::skip]
    let table = [
        (json!({provisioner: DRIVER, selected: "node-1"}),     json!({}),                    true),
        (json!({provisioner: DRIVER}),                         json!({}),                    false),
        (json!({provisioner: "other", selected: "node-1"}),    json!({}),                    false),
        (json!({selected: "node-1"}),                          json!({}),                    false),
        (json!({provisioner: DRIVER, selected: "node-1"}),     json!({"volumeName": "pv"}),  false),
    ];
    for (annotations, spec, want) in table {
        let made = volume_for(&claim(annotations.clone(), spec, json!({})), Some(&class()));
        assert_eq!(made.is_some(), want, "{annotations}");
    }
    let wanted = claim(json!({provisioner: DRIVER, selected: "node-1"}), json!({}), json!({}));
    assert_eq!(volume_for(&wanted, None), None, "its class has gone");
    let volume: PersistentVolume =
        serde_json::from_value(volume_for(&wanted, Some(&class())).unwrap()).unwrap();
    assert_eq!(volume.metadata.name, "pvc-u-1");
    let owner = volume.spec.claim_ref.clone().unwrap();
    assert_eq!((owner.namespace.as_str(), owner.name.as_str()), ("ns", "data"));
    assert_eq!(volume.spec.persistent_volume_reclaim_policy, "Delete");
}

#[test]
fn volumes_grow_and_go() {
    let volume = |phase: &str, policy: &str, by: &str| -> PersistentVolume {
        serde_json::from_value(json!({
            "metadata": {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": by}},
            "spec": {"persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase},
        }))
        .unwrap()
    };
    assert!(is_unwanted(&volume("Released", "Delete", DRIVER)));
    assert!(!is_unwanted(&volume("Released", "Retain", DRIVER)));
    assert!(!is_unwanted(&volume("Bound", "Delete", DRIVER)));
    assert!(!is_unwanted(&volume("Released", "Delete", "other")));

    let bound = |asked: &str, has: &str| {
        let spec = json!({"volumeName": "pv", "resources": {"requests": {"storage": asked}}});
        claim(json!({}), spec, json!({"phase": "Bound", "capacity": {"storage": has}}))
    };
    let ours = volume("Bound", "Delete", DRIVER);
    let grown = |asked: &str, has: &str| growth(&bound(asked, has), &ours).map(|size| size.to_string());
    assert_eq!(grown("2Gi", "1Gi").as_deref(), Some("2Gi"));
    assert_eq!(grown("1Gi", "1Gi"), None);
    assert_eq!(growth(&bound("2Gi", "1Gi"), &volume("Bound", "Delete", "other")), None);
}
