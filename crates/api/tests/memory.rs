//! The budget that caches of 150,000 pods stand on: bytes on the heap for each pod.

use std::alloc::System;
use std::sync::Arc;

use flyball_api::Pod;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 2_000;
const BUDGET: usize = 2_048;
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
const AIM: usize = 1_024;

/// A plain pod of a Deployment as the API server serves it, without managedFields.
fn served(number: usize) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-7d4b9c6f5d-{number:05}"), "generateName": "web-7d4b9c6f5d-", "namespace": "default",
            "uid": format!("7b0f3a52-93ab-4c1e-8d0f-{number:012x}"), "resourceVersion": format!("{}", 1000 + number),
            "generation": 1, "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web", "app.kubernetes.io/component": "frontend", "pod-template-hash": "7d4b9c6f5d"},
            "annotations": {"example.com/checksum": "0123456789abcdef0123456789abcdef"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "8b0f3a52-93ab-4c1e-8d0f-0123456789ab", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "nodeName": format!("ip-10-0-{}-{}.eu-west-1.compute.internal", number % 10, number % 7),
            "serviceAccountName": "default", "serviceAccount": "default", "schedulerName": "default-scheduler",
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": true,
            "securityContext": {},
            "containers": [{
                "name": "web", "image": "registry.example.com/team/web:1.27.3", "imagePullPolicy": "IfNotPresent",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
                "volumeMounts": [{"name": format!("kube-api-access-{number:05}"), "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "env": [{"name": "MODE", "value": "production"}],
            }],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "volumes": [{"name": format!("kube-api-access-{number:05}"), "projected": {"defaultMode": 420, "sources": []}}],
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "startTime": "2026-01-02T03:04:06Z", "observedGeneration": 1,
            "hostIP": "10.0.1.2", "hostIPs": [{"ip": "10.0.1.2"}],
            "podIP": format!("10.244.{}.{}", number / 250, number % 250),
            "podIPs": [{"ip": format!("10.244.{}.{}", number / 250, number % 250)}],
            "conditions": CONDITIONS.map(|type_| json!({"type": type_, "status": "True", "observedGeneration": 1,
                "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:07Z"})),
            "containerStatuses": [{
                "name": "web", "ready": true, "started": true, "restartCount": 0, "lastState": {},
                "image": "registry.example.com/team/web:1.27.3",
                "imageID": "registry.example.com/team/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef",
                "containerID": format!("containerd://{number:064x}"),
                "state": {"running": {"startedAt": "2026-01-02T03:04:07Z"}},
                "allocatedResources": {"cpu": "100m", "memory": "128Mi"},
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}},
            }],
        },
    })
    .to_string()
}

#[test]
fn a_plain_pod_stays_within_its_budget() {
    let texts: Vec<String> = (0..PODS).map(served).collect();
    let mut pods: Vec<Arc<Pod>> = Vec::with_capacity(PODS);
    let region = Region::new(ALLOCATOR);
    for text in &texts {
        pods.push(Arc::new(serde_json::from_str(text).unwrap()));
    }
    let stats = region.change();
    let bytes = (stats.bytes_allocated - stats.bytes_deallocated) / PODS;
    let blocks = (stats.allocations - stats.deallocations) / PODS;
    println!("{bytes} bytes in {blocks} allocations per pod; {} bytes of them inline", size_of::<Pod>());
    assert!(bytes <= BUDGET, "{bytes} bytes per pod are over the budget of {BUDGET}");
    assert!(bytes <= AIM, "{bytes} bytes per pod miss the aim of {AIM}");
}
