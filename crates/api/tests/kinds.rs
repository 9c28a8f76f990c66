//! What controllers write back must be what they read: every kind survives a round trip, and nothing that the
//! server could send makes decoding panic.

use flyball_api::*;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads `served` and checks that it is sent back unchanged, with the type of `T`.
fn survives<T: Resource + Serialize>(mut served: Value) -> T {
    served["metadata"] = json!({"name": "a", "resourceVersion": "7"});
    let object: T = serde_json::from_value(served.clone()).expect("it can be read");
    served["apiVersion"] = T::TYPE.api_version().as_str().into();
    served["kind"] = T::TYPE.kind.as_str().into();
    assert_eq!(manifest(&object).expect("it can be written"), served);
    object
}

fn conditions() -> Value {
    json!([{"type": "Unheard-of", "status": "True", "reason": "Because", "message": "of that",
        "lastTransitionTime": "2026-01-02T03:04:05Z"}])
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "unknown": [1, 2.5]}]}})
}

#[test]
fn workloads_survive() {
    let set: ReplicaSet = survives(json!({
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(), "new": {}},
        "status": {"replicas": 0, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 4, "conditions": conditions()},
    }));
    assert_eq!((set.spec.replicas, set.spec.template.metadata.labels.get("app")), (Some(3), Some("web")));
    survives::<ReplicationController>(json!({
        "spec": {"replicas": 1, "selector": {"app": "web"}, "template": template()}, "status": {"replicas": 1},
    }));
    let deployment: Deployment = survives(json!({
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(), "paused": true,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
        "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2, "unavailableReplicas": 1, "terminatingReplicas": 1, "collisionCount": 2,
            "conditions": [{"type": "Progressing", "status": "True", "lastUpdateTime": "2026-01-02T03:04:05Z",
                "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "r", "message": "m"}]},
    }));
    let rolling = deployment.spec.strategy.rolling_update.as_ref().unwrap();
    assert_eq!((&rolling.max_surge, deployment.spec.paused), (&Some("25%".into()), true));
    survives::<DaemonSet>(json!({
        "spec": {"selector": {}, "template": template(), "updateStrategy": {"type": "OnDelete"}},
        "status": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
            "observedGeneration": 1, "updatedNumberScheduled": 1, "numberAvailable": 1, "numberUnavailable": 1,
            "collisionCount": 0, "conditions": conditions()},
    }));
    let set: StatefulSet = survives(json!({
        "spec": {"serviceName": "s", "template": template(), "selector": {}, "ordinals": {"start": 5},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
        "status": {"replicas": 0, "availableReplicas": 0, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 1,
            "currentRevision": "a", "updateRevision": "b", "collisionCount": 0, "observedGeneration": 1},
    }));
    assert_eq!(set.spec.volume_claim_templates[0].metadata.name, "data");
    survives::<ControllerRevision>(json!({"data": {"spec": {"template": template()}}, "revision": 3}));
}

#[test]
fn jobs_survive() {
    let job: Job = survives(json!({
        "spec": {"parallelism": 2, "completions": 4, "completionMode": "Indexed", "template": template(),
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]},
            "successPolicy": {"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]}},
        "status": {"conditions": [{"type": "Complete", "status": "True", "lastProbeTime": "2026-01-02T03:04:05Z",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:06Z", "active": 1, "succeeded": 2,
            "failed": 3, "terminating": 0, "ready": 0, "completedIndexes": "0,3-5", "failedIndexes": "",
            "uncountedTerminatedPods": {"succeeded": ["7b0f3a52-93ab-4c1e-8d0f-0123456789ab"]}},
    }));
    assert_eq!(
        job.spec.pod_failure_policy.as_ref().unwrap().rules[0].on_exit_codes.as_ref().unwrap().values,
        [42]
    );
    assert_eq!(job.spec.template.spec.restart_policy.as_str(), "Never");
    let cron: CronJob = survives(json!({
        "spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "suspend": false,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template()}}},
        "status": {"active": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "namespace": "n", "uid": "u",
                "resourceVersion": "5"}],
            "lastScheduleTime": "2026-01-02T03:04:05Z", "lastSuccessfulTime": "2026-01-02T03:04:05Z"},
    }));
    assert_eq!(cron.spec.job_template.metadata.labels.get("a"), Some("b"));
}

#[test]
fn networking_survives() {
    let service: Service = survives(json!({
        "spec": {"clusterIP": "None", "clusterIPs": ["None"], "selector": {"app": "web"}, "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}], "unknown": 1},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}},
    }));
    assert!(service.is_headless() && service.spec.ports[0].target_port == Some("web".into()));
    survives::<Endpoints>(json!({"subsets": [{
        "addresses": [{"ip": "10.0.0.1", "nodeName": "n", "targetRef": {"kind": "Pod", "name": "p", "namespace": "x", "uid": "u"}}],
        "notReadyAddresses": [{"ip": "10.0.0.2", "hostname": "h"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}]}]}));
    survives::<EndpointSlice>(
        json!({"addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n", "zone": "z", "hints": {"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]},
            "targetRef": {"kind": "Pod", "name": "p", "namespace": "x", "uid": "u"}}]}),
    );
    let empty: EndpointSlice =
        serde_json::from_value(json!({"addressType": "IPv6", "endpoints": null, "ports": null})).unwrap();
    assert!(empty.endpoints.is_empty() && empty.ports.is_empty());
    survives::<ServiceCIDR>(
        json!({"spec": {"cidrs": ["10.0.0.0/16"]}, "status": {"conditions": conditions()}}),
    );
    survives::<IPAddress>(
        json!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}}),
    );
}

#[test]
fn storage_survives() {
    let volume: PersistentVolume = survives(json!({
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"kind": "PersistentVolumeClaim", "name": "c"},
            "csi": {"driver": "d", "volumeHandle": "h", "unknown": true}},
        "status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"},
    }));
    assert_eq!(volume.spec.capacity.get("storage").unwrap().value(), 1 << 30);
    let claim: PersistentVolumeClaim = survives(json!({
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
            "conditions": [{"type": "Resizing", "status": "True", "lastProbeTime": "2026-01-02T03:04:05Z"}],
            "modifyVolumeStatus": {"targetVolumeAttributesClassName": "x", "status": "Pending"}},
    }));
    assert_eq!(claim.spec.storage_class_name.as_deref(), Some(""));
    survives::<StorageClass>(json!({"provisioner": "p", "parameters": {"a": "b"}, "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true, "volumeBindingMode": "Immediate", "allowedTopologies": [{"x": 1}]}));
    survives::<VolumeAttributesClass>(json!({"driverName": "p", "parameters": {"a": "b"}}));
    survives::<VolumeAttachment>(json!({
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        "status": {"attached": false, "attachError": {"time": "2026-01-02T03:04:05Z", "message": "m", "errorCode": 3}},
    }));
    survives::<CSINode>(json!({"spec": {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": ["z"],
        "allocatable": {"count": 3}}]}}));
    survives::<CSIDriver>(
        json!({"spec": {"attachRequired": false, "seLinuxMount": true, "podInfoOnMount": true}}),
    );
}

#[test]
fn policies_and_the_rest_survive() {
    let budget: PodDisruptionBudget = survives(json!({
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
        "status": {"observedGeneration": 1, "disruptedPods": {"p": "2026-01-02T03:04:05Z"}, "disruptionsAllowed": 0,
            "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "conditions": conditions()},
    }));
    assert_eq!(budget.spec.min_available, Some("50%".into()));
    survives::<ResourceQuota>(json!({
        "spec": {"hard": {"pods": "10", "requests.cpu": "1500m"}, "scopes": ["BestEffort"],
            "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}]}},
        "status": {"hard": {"pods": "10"}, "used": {"pods": "0"}},
    }));
    survives::<HorizontalPodAutoscaler>(json!({
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
            "behavior": {"scaleUp": {"tolerance": "50m", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}},
        "status": {"observedGeneration": 1, "lastScaleTime": "2026-01-02T03:04:05Z", "currentReplicas": 1,
            "desiredReplicas": 0, "conditions": conditions(), "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "40m"}}}]},
    }));
    survives::<HorizontalPodAutoscaler>(
        json!({"spec": {"maxReplicas": 1}, "status": {"desiredReplicas": 0, "currentMetrics": null}}),
    );
    survives::<ClusterRole>(json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
        "resourceNames": ["x"]}, {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}));
    survives::<ClusterRole>(json!({"rules": null}));
    survives::<CertificateSigningRequest>(json!({
        "spec": {"request": "cGVt", "signerName": "s", "usages": ["client auth"], "username": "u", "groups": ["g"],
            "extra": {"k": ["v"]}, "expirationSeconds": 600},
        "status": {"certificate": "cGVt", "conditions": [{"type": "Approved", "status": "True",
            "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    }));
    let claim: ResourceClaim = survives(json!({
        "spec": {"devices": {"requests": [{"name": "gpu"}]}},
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}], "allocation": {"devices": {"results": [
            {"request": "gpu", "driver": "d", "pool": "p", "device": "x", "unknown": 1}]}}},
    }));
    assert_eq!(claim.status.allocation.unwrap().devices.results[0].device, "x");
    survives::<ResourceClaimTemplate>(
        json!({"spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {}}}}),
    );
    survives::<ValidatingAdmissionPolicy>(
        json!({"spec": {"validations": []}, "status": {"observedGeneration": 2,
        "typeChecking": {"expressionWarnings": [{"fieldRef": "f", "warning": "w"}]}, "conditions": conditions()}}),
    );
    survives::<Event>(json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": "n", "uid": "u",
            "apiVersion": "v1", "resourceVersion": "5", "fieldPath": "spec"}, "reason": "Killing", "message": "m",
        "source": {"component": "c"}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1, "type": "Normal", "reportingComponent": "c", "reportingInstance": ""}));
    survives::<Lease>(
        json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-02T03:04:05.000000Z", "renewTime": "2026-01-02T03:04:05.123456Z"}}),
    );
    survives::<ServiceAccount>(json!({"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "i"}],
        "automountServiceAccountToken": false}));
    survives::<ConfigMap>(json!({"data": {"ca.crt": "pem"}}));
    survives::<Namespace>(json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating",
        "conditions": conditions()}}));
    survives::<Node>(
        json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "x://y",
            "unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}]},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "allocatable": {"cpu": "4"},
            "volumesInUse": ["v"], "volumesAttached": [{"name": "v", "devicePath": ""}], "conditions": conditions(),
            "nodeInfo": {"machineID": "m", "systemUUID": "u", "bootID": "b", "kernelVersion": "6.1", "osImage": "Debian 12",
                "containerRuntimeVersion": "containerd://2.1", "kubeletVersion": "v1.36.4", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64", "swap": {"capacity": 1024}}}}),
    );
}

/// Objects of arbitrary shape under the field names that kinds look at.
fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9%]{0,8}".prop_map(Value::from),
        Just(json!("2026-01-02T03:04:05Z")),
    ];
    let name = "(metadata|name|uid|labels|annotations|resourceVersion|spec|status|template|selector|replicas|conditions|type|containers|volumes|resources|requests|cpu|ownerReferences|phase|rules|ports|subsets|endpoints|data|state)";
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn decodes_or_refuses<T: DeserializeOwned>(text: &str) {
    let _ = serde_json::from_str::<T>(text);
}

proptest! {
    #[test]
    fn no_json_panics(object in any_object()) {
        let text = object.to_string();
        macro_rules! all {
            ($($kind:ty),+) => { $(decodes_or_refuses::<$kind>(&text);)+ };
        }
        all!(Pod, Node, ReplicaSet, ReplicationController, Deployment, DaemonSet, StatefulSet, ControllerRevision, Job,
            CronJob, Service, Endpoints, EndpointSlice, PersistentVolume, PersistentVolumeClaim, StorageClass,
            VolumeAttachment, CSINode, CSIDriver, PodDisruptionBudget, ResourceQuota, HorizontalPodAutoscaler, ClusterRole,
            CertificateSigningRequest, ServiceCIDR, IPAddress, ResourceClaim, ResourceClaimTemplate,
            ValidatingAdmissionPolicy, VolumeAttributesClass, Event, Lease, Namespace, Secret, ServiceAccount, ConfigMap,
            PartialObject);
    }
}
