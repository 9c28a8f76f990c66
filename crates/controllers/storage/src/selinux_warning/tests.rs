//! Tables for the pure parts.

use flyball_api::Key;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::book::{Book, Usage, labels_conflict};
use super::mounts::{Mount, MountingPod};

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

fn usage(label: &str) -> Usage {
    Usage::new(&label.into(), &"MountOption".into(), true)
}

#[test]
fn pods_hear_of_each_other_once() {
    let (mut book, disk) = (Book::default(), SmolStr::new_static("disk"));
    let (a, b, far) = (Key::new("ns", "a"), Key::new("ns", "b"), Key::new("other", "c"));
    let told = |book: &mut Book, pod: &Key, label: &str| -> Vec<String> {
        let new = book.note(&disk, "d.example", pod, usage(label));
        new.iter().map(|conflict| format!("{}: {}", conflict.pod, conflict.message())).collect()
    };
    assert!(told(&mut book, &a, ":::s0:c1").is_empty());
    let end = "If both pods land on the same node, only one of them may access the volume.";
    assert_eq!(
        told(&mut book, &b, ":::s0:c2"),
        [
            format!(
                "ns/b: SELinuxLabel \":::s0:c2\" conflicts with pod a that uses the same volume as this pod with SELinuxLabel \":::s0:c1\". {end}"
            ),
            format!(
                "ns/a: SELinuxLabel \":::s0:c1\" conflicts with pod b that uses the same volume as this pod with SELinuxLabel \":::s0:c2\". {end}"
            ),
        ]
    );
    assert!(told(&mut book, &b, ":::s0:c2").is_empty(), "that is no news");
    assert_eq!(
        told(&mut book, &far, "")[0],
        format!(
            "other/c: SELinuxChangePolicy\"Recursive\" conflicts with another pod that uses the same volume as this pod with a different SELinuxChangePolicy. {end}"
        ),
    );
    assert_eq!(book.conflicts().len(), 2 + 2 * 4);
    assert_eq!(book.users_of("d.example").len(), 3);
    book.forget(&b);
    book.forget(&far);
    assert!(book.conflicts().is_empty());
    book.forget(&a);
    assert!(book.users_of("d.example").is_empty());
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
