use std::sync::Arc;

use flyball_api::Node;
use flyball_api::pod::Pod;
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::super::caches::needs_disks;
use super::super::triggers::{changes_needed_disks, disks_in_status};

fn pod(spec: Value, status: Value, is_deleting: bool) -> Arc<Pod> {
    let mut metadata = json!({"namespace": "ns", "name": "p", "uid": "u"});
    if is_deleting {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap())
}

fn on_node() -> Value {
    json!({"nodeName": "n", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]})
}

fn state(state: &Value) -> Value {
    json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]})
}

#[test]
fn a_pod_needs_its_disks_until_its_containers_have_terminated() {
    let (running, ended) = (json!({"running": {}}), json!({"terminated": {"exitCode": 0}}));
    let mut debugged = state(&ended);
    debugged["ephemeralContainerStatuses"] = json!([{"name": "d", "state": running}]);
    #[rustfmt::skip]
    let table = [
        (on_node(),                  json!({}),                   false, true),
        (json!({"volumes": []}),     json!({}),                   false, false),
        (on_node(),                  json!({"phase": "Failed"}),  false, false),
        (on_node(),                  state(&running),             true,  true),
        (on_node(),                  state(&ended),               true,  false),
        (on_node(),                  state(&ended),               false, true),
        (on_node(),                  json!({}),                   true,  false),
        (on_node(),                  debugged,                    true,  true),
    ];
    for (spec, status, is_deleting, want) in table {
        assert_eq!(needs_disks(&pod(spec.clone(), status.clone(), is_deleting)), want, "{spec} {status}");
    }
}

#[test]
fn a_pod_is_relevant_when_it_begins_or_ceases_to_need_disks() {
    let waiting = pod(json!({"volumes": on_node()["volumes"]}), json!({}), false);
    let placed = pod(on_node(), json!({}), false);
    let running = pod(on_node(), state(&json!({"running": {}})), false);
    let finished = pod(on_node(), json!({"phase": "Succeeded"}), false);
    let changed = |old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>| {
        changes_needed_disks(&Change { old, new, origin: Origin::Watch })
    };
    assert!(!changed(None, Some(&waiting)));
    assert!(changed(Some(&waiting), Some(&placed)));
    assert!(!changed(Some(&placed), Some(&running)));
    assert!(changed(Some(&running), Some(&finished)));
    assert!(!changed(Some(&finished), None));
    assert!(changed(Some(&running), None));
}

#[test]
fn a_heartbeat_of_a_node_is_ignored() {
    let node = |status: Value, taints: Value| -> Arc<Node> {
        let annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        let node = json!({"metadata": {"name": "n", "annotations": annotations}, "spec": {"taints": taints}, "status": status});
        Arc::new(serde_json::from_value(node).unwrap())
    };
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": null}]});
    let calm = node(ready("True"), json!([]));
    let attached =
        json!({"volumesAttached": [{"name": "disk", "devicePath": ""}], "volumesInUse": ["other"]});
    let out = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    let changed = |new: &Arc<Node>| {
        let names = disks_in_status(&Change { old: Some(&calm), new: Some(new), origin: Origin::Watch });
        names.map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(changed(&calm.clone()), None);
    assert_eq!(changed(&node(ready("False"), json!([]))).as_deref(), Some(""));
    assert_eq!(changed(&node(ready("True"), out)).as_deref(), Some(""));
    assert_eq!(changed(&node(attached, json!([]))).as_deref(), Some("disk other"));
}
