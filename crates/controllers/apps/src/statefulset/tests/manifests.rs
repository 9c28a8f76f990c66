use serde_json::json;

use super::world::set;
use crate::statefulset::{identity, manifests};

#[test]
fn a_new_pod_has_its_identity_and_its_claims() {
    let mut set = set("2 claims");
    set.spec = serde_json::from_value({
        let mut spec = set.spec.raw().to_value();
        spec["template"]["spec"]["volumes"] =
            json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
        spec["template"]["metadata"]["annotations"] = json!({"a": "b"});
        spec
    })
    .unwrap();
    let pod = manifests::pod(&set, &set.spec.template, "db-new", 1);
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "db-1", "generateName": "db-", "namespace": "ns", "annotations": {"a": "b"},
            "labels": {"app": "db", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": "db-new",
                "statefulset.kubernetes.io/pod-name": "db-1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true, "blockOwnerDeletion": true}],
        })
    );
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-1"), &json!("svc")));
    assert_eq!(
        pod["spec"]["volumes"],
        json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}},
            {"name": "tmp", "emptyDir": {}},
        ])
    );
}

#[test]
fn the_service_decides_on_the_subdomain_and_the_template_does_not() {
    for (service, want) in [("svc", json!("svc")), ("", json!(null))] {
        let mut set = set("1");
        let mut spec = set.spec.raw().to_value();
        spec["serviceName"] = json!(service);
        spec["template"]["spec"]["subdomain"] = json!("mine");
        set.spec = serde_json::from_value(spec).unwrap();
        let pod = manifests::pod(&set, &set.spec.template, "db-new", 0);
        assert_eq!(pod["spec"]["subdomain"], want, "{service}");
    }
}

#[test]
fn claims_have_the_labels_of_template_and_selector() {
    assert_eq!(
        manifests::claims(&set("2 claims"), 7),
        [json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-db-7", "namespace": "ns", "labels": {"app": "db", "kind": "data"}},
            "spec": {"accessModes": ["ReadWriteOnce"]},
        })]
    );
}

#[test]
fn names_contain_set_and_ordinal() {
    #[rustfmt::skip]
    let table = [
        ("db-0",              Some(("db", Some(0)))),
        ("my-db-12",          Some(("my-db", Some(12)))),
        ("db-007",            Some(("db", Some(7)))),
        ("db-99999999999",    Some(("db", None))),
        ("db-x",              None),
        ("db-",               None),
        ("db",                None),
        ("-5",                Some(("", Some(5)))),
    ];
    for (name, want) in table {
        assert_eq!(identity::parent_and_ordinal(name), want, "{name}");
    }
}
