use serde_json::{Value, json};

use super::*;
use crate::Timestamp;

fn pod(json: Value) -> Pod {
    serde_json::from_value(json).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_pod_is_available_once_it_was_ready_for_long_enough() {
    let ready = |status: &str, since: Option<&str>| {
        pod(
            json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]}}),
        )
    };
    let now = at("2026-01-01T00:01:00Z");
    #[rustfmt::skip]
    let table = [
        // case                             pod                                            min  available
        ("not ready",                       ready("False", Some("2026-01-01T00:00:00Z")),  0,   false),
        ("no minimum",                      ready("True", None),                           0,   true),
        ("ready at an unknown time",        ready("True", None),                           1,   false),
        ("exactly long enough",             ready("True", Some("2026-01-01T00:00:30Z")),   30,  true),
        ("one second short",                ready("True", Some("2026-01-01T00:00:31Z")),   30,  false),
        ("no conditions",                   pod(json!({})),                                0,   false),
    ];
    for (case, pod, min_ready_seconds, want) in table {
        assert_eq!(pod.is_available(min_ready_seconds, now), want, "{case}");
    }
}

#[test]
fn active_finished_and_terminating_are_told_apart() {
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    #[rustfmt::skip]
    let table = [
        // phase       deleted  active  finished  terminating
        ("Pending",    false,   true,   false,    false),
        ("Running",    false,   true,   false,    false),
        ("Running",    true,    false,  false,    true),
        ("Succeeded",  false,   false,  true,     false),
        ("Failed",     true,    false,  true,     false),
        ("Unheard-of", false,   true,   false,    false),
    ];
    for (phase, is_deleted, active, finished, terminating) in table {
        let metadata = if is_deleted { deleted.clone() } else { json!({}) };
        let pod = pod(json!({"metadata": metadata, "status": {"phase": phase}}));
        assert_eq!(
            (pod.is_active(), pod.is_finished(), pod.is_terminating()),
            (active, finished, terminating),
            "{phase}"
        );
    }
}

#[test]
fn only_volumes_that_controllers_act_on_are_kept() {
    let pod = pod(json!({"spec": {"volumes": [
        {"name": "token", "projected": {"sources": []}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-0", "readOnly": true}},
        {"name": "made", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "inline", "csi": {"driver": "d.example.com"}},
        {"name": "disk", "iscsi": {"lun": 0}},
    ]}}));
    let names: Vec<_> = pod.spec.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["data", "made", "inline", "disk"]);
    assert_eq!(pod.spec.volumes[0].source, VolumeSource::Claim { name: "data-0".into(), read_only: true });
    assert!(matches!(&pod.spec.volumes[3].source, VolumeSource::Inline(field, _) if field == "iscsi"));
}

#[test]
fn addresses_come_from_either_field() {
    let one = pod(json!({"status": {"podIP": "10.0.0.1", "hostIP": "192.168.0.1"}}));
    let two =
        pod(json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}));
    assert_eq!(
        (one.status.pod_ip(), one.status.host_ip(), one.status.pod_ips.len()),
        ("10.0.0.1", "192.168.0.1", 1)
    );
    assert_eq!((two.status.pod_ip(), two.status.pod_ips.len()), ("10.0.0.1", 2));
}

#[test]
fn container_states_are_read() {
    let pod = pod(json!({"status": {"containerStatuses": [
        {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3},
        {"name": "b", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": true},
        {"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
        {"name": "d"},
    ]}}));
    let states: Vec<_> = pod.status.container_statuses.iter().map(|status| &status.state).collect();
    assert_eq!(*states[0], ContainerState::Waiting { reason: "CrashLoopBackOff".into() });
    assert_eq!(*states[1], ContainerState::Running { started_at: Some(at("2026-01-01T00:00:00Z")) });
    assert!(
        matches!(states[2], ContainerState::Terminated(end) if end.exit_code == 137 && end.reason == "OOMKilled")
    );
    assert_eq!(*states[3], ContainerState::Unset);
}

#[test]
fn requests_add_up_as_containers_run() {
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |name: &str, cpu: &str| json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    #[rustfmt::skip]
    let table = [
        ("containers add up",
            json!({"containers": [container("a", "1"), container("b", "500m")]}), "1500m"),
        ("a large init container is the minimum",
            json!({"containers": [container("a", "1")], "initContainers": [container("i", "3")]}), "3"),
        ("a small one does not count",
            json!({"containers": [container("a", "1")], "initContainers": [container("i", "500m")]}), "1"),
        ("sidecars run beside containers",
            json!({"containers": [container("a", "1")], "initContainers": [sidecar("s", "1")]}), "2"),
        ("sidecars run beside later init containers only",
            json!({"containers": [container("a", "1")], "initContainers":
                [container("i", "3"), sidecar("s", "1"), container("j", "2500m")]}), "3500m"),
        ("overhead comes on top",
            json!({"containers": [container("a", "1")], "overhead": {"cpu": "250m"}}), "1250m"),
        ("the pod's own amount replaces the sum",
            json!({"containers": [container("a", "1")], "resources": {"requests": {"cpu": "4", "x/y": "1"}}}), "4"),
    ];
    for (case, spec, want) in table {
        let requests = pod(json!({"spec": spec})).requests(ResourceOptions::default());
        assert_eq!(requests.get("cpu").map(|cpu| cpu.to_string()).as_deref(), Some(want), "{case}");
    }
}

#[test]
fn a_resize_counts_the_larger_side_until_it_is_refused() {
    let resized = |reason: &str| {
        pod(json!({
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1500m"},
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]},
        }))
    };
    let with_status = ResourceOptions { use_status: true, ..Default::default() };
    let cpu = |list: ResourceList| list.get("cpu").unwrap().to_string();
    assert_eq!(cpu(resized("Deferred").requests(with_status)), "2");
    assert_eq!(cpu(resized("Infeasible").requests(with_status)), "1500m");
    assert_eq!(cpu(resized("Infeasible").requests(ResourceOptions::default())), "2");
    assert_eq!(cpu(resized("Infeasible").limits(with_status)), "1");
}

#[test]
fn pods_of_one_template_share_what_they_have_in_common() {
    let make = || {
        pod(json!({"spec": {"containers": [{"name": "a", "image": "registry.example.com/team/image:v1"}]}}))
    };
    let (a, b) = (make(), make());
    assert!(std::ptr::eq(a.spec.containers.as_ptr(), b.spec.containers.as_ptr()));
}

#[test]
fn secrets_are_found_wherever_a_pod_draws_on_one() {
    let env = |name: &str| json!([{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}]);
    let pod: Pod = serde_json::from_value(json!({"spec": {
        "imagePullSecrets": [{"name": "pull"}, {}],
        "containers": [{"name": "c", "env": env("env"), "envFrom": [{"configMapRef": {"name": "no"}}, {"secretRef": {"name": "from"}}]}],
        "initContainers": [{"name": "i", "env": env("init")}],
        "ephemeralContainers": [{"name": "e", "env": env("ephemeral")}],
        "volumes": [
            {"name": "1", "secret": {"secretName": "volume"}},
            {"name": "2", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "no"}}, {"serviceAccountToken": {}}]}},
            {"name": "3", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
            {"name": "4", "azureFile": {"secretName": "azure", "shareName": "s"}},
            {"name": "5", "cephfs": {"secretRef": {"name": "ceph"}}},
            {"name": "6", "cinder": {"volumeID": "v", "secretRef": {"name": "cinder"}}},
            {"name": "7", "flexVolume": {"driver": "d", "secretRef": {"name": "flex"}}},
            {"name": "8", "rbd": {"secretRef": {"name": "rbd"}}},
            {"name": "9", "iscsi": {"secretRef": {"name": "iscsi"}}},
            {"name": "a", "scaleIO": {"secretRef": {"name": "scaleio"}}},
            {"name": "b", "storageos": {"secretRef": {"name": "storageos"}}},
            {"name": "c", "emptyDir": {}},
        ],
    }})).unwrap();
    let mut names: Vec<&str> = pod.spec.secret_names().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names.join(" "),
        "azure ceph cinder csi env ephemeral flex from init iscsi projected pull rbd scaleio storageos volume"
    );
    let plain: Pod = serde_json::from_value(
        json!({"spec": {"containers": [{"name": "c", "env": null}], "volumes": null}}),
    )
    .unwrap();
    assert_eq!(plain.spec.secret_names().count(), 0);
}
