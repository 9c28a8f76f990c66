//! Tables for the pure parts.

use std::sync::Arc;

use flyball_api::{CSIDriver, Key};
use flyball_cache::{Change, Origin};
use flyball_runtime::events::ObjectRef;
use serde_json::{Value, json};

use super::mounts::{Mount, MountingPod};
use super::plan::{MountedDisk, View, plan, usages};
use super::registry::{Registry, Usage, labels_conflict};
use super::triggers::{is_driver_changed, pod_changed};

#[test]
fn only_what_nodes_do_not_fill_in_conflicts() {
    #[rustfmt::skip]
    let table = [
        ("",                  "",                   false),
        ("u:r:t:s0:c1,c2",    "u:r:t:s0:c1,c2",     false),
        ("u:r:t:s0:c1,c2",    "u:r:t:s0:c3",        true),
        ("u:r:t:s0",          ":::s0",              false),
        ("u:r:t:s0",          "u::x:s0",            true),
        ("u:r:t:s0",          "",                   true),
        ("u:::",              "x:::",               true),
        ("u:::",              ":r::",               false),
    ];
    for (one, other, want) in table {
        assert_eq!((labels_conflict(one, other), labels_conflict(other, one)), (want, want), "{one} {other}");
    }
}

#[test]
fn a_disk_that_cannot_be_mounted_with_a_label_is_relabelled() {
    #[rustfmt::skip]
    let table = [
        // label      policy         can    in effect
        (":::s0",     "MountOption", true,  (":::s0", "MountOption")),
        (":::s0",     "MountOption", false, ("",      "Recursive")),
        (":::s0",     "Recursive",   true,  ("",      "Recursive")),
        ("",          "MountOption", true,  ("",      "Recursive")),
    ];
    for (label, policy, can, want) in table {
        let usage = Usage::new(&label.into(), &policy.into(), can);
        assert_eq!((usage.label.as_str(), usage.policy.as_str()), want, "{label} {policy} {can}");
    }
}

fn disk() -> MountedDisk {
    MountedDisk { name: "disk".into(), driver: "d.example".into(), has_mount_option: true }
}

/// A pod whose container mounts the volume `data` with a label.
fn pod(key: &Key, label: &str) -> MountingPod {
    let mut pod = MountingPod { change_policy: "MountOption".into(), ..MountingPod::default() };
    (pod.metadata.namespace, pod.metadata.name) = (key.namespace.clone(), key.name.clone());
    pod.mounts.insert("data".into(), Mount::Label(label.into()));
    pod
}

/// Plans for a pod whose volumes are all the same disk, and records its usages. The volume `pending` has a claim that is not
/// bound.
fn synced(registry: &mut Registry, pod: &MountingPod) -> String {
    let unknown = ["pending".into()].into();
    let disks = pod.mounts.keys().map(|volume| (volume.clone(), disk())).collect();
    let pods = |key: &Key| {
        let exists = key.name != "deleted";
        let pod = self::pod(key, "");
        exists.then(|| ObjectRef::of(&pod))
    };
    let view = View { pod, disks: &disks, unknown: &unknown, registry, pods: &pods };
    let (plan, usages) = (plan(&view), usages(&view));
    for (disk, usage) in usages {
        registry.record(&disk, &pod.metadata.key(), usage);
    }
    plan.to_string()
}

#[test]
fn pods_get_one_event_about_each_conflict() {
    let mut registry = Registry::default();
    let (a, b, far) = (Key::new("ns", "a"), Key::new("ns", "b"), Key::new("other", "c"));
    assert_eq!(synced(&mut registry, &pod(&a, ":::s0:c1")), "");
    let end = "If both pods land on the same node, only one of them may access the volume.";
    let event = |pod: &str, own: &str, other: &str, its: &str| {
        format!(
            "event Normal SELinuxLabelConflict: SELinuxLabel \"{own}\" conflicts with pod {other} that uses the same \
             volume as this pod with SELinuxLabel \"{its}\". {end} (Pod {pod})"
        )
    };
    assert_eq!(
        synced(&mut registry, &pod(&b, ":::s0:c2")),
        format!("{}\n{}", event("b", ":::s0:c2", "a", ":::s0:c1"), event("a", ":::s0:c1", "b", ":::s0:c2"))
    );
    assert_eq!(synced(&mut registry, &pod(&b, ":::s0:c2")), "", "it is recorded");
    assert_eq!(
        synced(&mut registry, &pod(&far, "")).lines().next().unwrap(),
        format!(
            "event Normal SELinuxChangePolicyConflict: SELinuxChangePolicy\"Recursive\" conflicts with another pod that \
             uses the same volume as this pod with a different SELinuxChangePolicy. {end} (Pod c)"
        ),
    );
    assert_eq!(registry.conflicts().len(), 2 + 2 * 4);
    assert_eq!(registry.users_of("d.example").len(), 3);
    registry.forget(&b);
    registry.forget(&far);
    assert!(registry.conflicts().is_empty());
    registry.forget(&a);
    assert!(registry.users_of("d.example").is_empty());
}

#[test]
fn deleted_pods_get_no_events() {
    let mut registry = Registry::default();
    synced(&mut registry, &pod(&Key::new("ns", "deleted"), ":::s0:c1"));
    assert_eq!(synced(&mut registry, &pod(&Key::new("ns", "b"), ":::s0:c2")).lines().count(), 1);
}

#[test]
fn a_pod_with_several_labels_or_several_volumes_of_one_disk_gets_each_event_once() {
    let mut registry = Registry::default();
    synced(&mut registry, &pod(&Key::new("ns", "a"), ":::s0:c1"));
    let mut two = pod(&Key::new("ns", "b"), ":::s0:c2");
    two.mounts.insert("same".into(), Mount::Label(":::s0:c2".into()));
    two.mounts.insert("mixed".into(), Mount::Several);
    two.mounts.insert("pending".into(), Mount::Several);
    let events = synced(&mut registry, &two);
    let mixed = "Volume \"mixed\" is mounted twice with different SELinux labels inside this pod";
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(lines.len(), 4, "{events}");
    assert_eq!(lines[0], format!("event Warning MultipleSELinuxLabels: {mixed}"));
    assert_eq!(lines[3], format!("fail: {mixed}"), "it is repeated with backoff");
}

#[test]
fn labels_come_from_containers_then_from_the_pod() {
    let pod = |spec: Value| -> MountingPod {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": spec})).unwrap()
    };
    let mounting = |name: &str, level: Option<&str>| {
        let mut container = json!({"name": "c", "volumeMounts": [{"name": name, "mountPath": "/"}]});
        if let Some(level) = level {
            container["securityContext"] = json!({"seLinuxOptions": {"level": level}});
        }
        container
    };
    let found = pod(json!({
        "securityContext": {"seLinuxOptions": {"user": "u", "level": "s0"}, "seLinuxChangePolicy": "Recursive"},
        "initContainers": [mounting("data", None)],
        "containers": [mounting("data", Some("s0:c1")), mounting("own", Some("s0:c1")), mounting("plain", None)],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "own", "emptyDir": {}}],
    }));
    let mounts: Vec<(&str, &Mount)> =
        found.mounts.iter().map(|(name, mount)| (name.as_str(), mount)).collect();
    let label = |label: &str| Mount::Label(label.into());
    assert_eq!(mounts, [("data", &Mount::Several), ("own", &label(":::s0:c1")), ("plain", &label("u:::s0"))]);
    assert_eq!((found.volumes.len(), found.change_policy.as_str()), (1, "Recursive"));

    let bare = pod(json!({"containers": [mounting("data", None)], "volumes": null}));
    assert_eq!(bare.mounts["data"], label(""));
    assert_eq!(bare.change_policy, "MountOption");
}

#[test]
fn a_pod_is_synced_when_it_is_new_deleted_or_replaced() {
    let pod = |uid: &str| {
        let mut pod = pod(&Key::new("ns", "p"), "");
        pod.metadata.uid = uid.into();
        Some(Arc::new(pod))
    };
    #[rustfmt::skip]
    let table = [
        // case       before     after      synced
        ("new",       None,      pod("u1"), true),
        ("changed",   pod("u1"), pod("u1"), false),
        ("replaced",  pod("u1"), pod("u2"), true),
        ("deleted",   pod("u1"), None,      true),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(pod_changed(&change).is_some(), want, "{case}");
    }
}

#[test]
fn a_driver_matters_when_it_begins_or_ceases_to_mount_with_labels() {
    let driver = |mounts: Value| -> Option<Arc<CSIDriver>> {
        let driver = json!({"metadata": {"name": "d.example"}, "spec": {"seLinuxMount": mounts}});
        Some(Arc::new(serde_json::from_value(driver).unwrap()))
    };
    let changed = |old: Option<Arc<CSIDriver>>, new: Option<Arc<CSIDriver>>| {
        is_driver_changed(&Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch })
    };
    assert!(changed(None, driver(json!(true))) && changed(driver(json!(true)), driver(json!(false))));
    assert!(!changed(None, driver(json!(false))) && !changed(driver(json!(true)), driver(json!(true))));
}
