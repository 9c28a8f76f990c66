use std::sync::Arc;

use flyball_api::pod::Pod;
use serde_json::json;

use super::world::{ALL, asking, claim, container, now, pod, pod_with, service, shown};
use crate::resourcequota::scopes::Scopes;
use crate::resourcequota::usage::{Features, pods, services, volume_claims};

fn of_pods(pods: &[Arc<Pod>], names: &[&str], features: Features) -> String {
    shown(&pods::usage(pods, names, &Scopes::default(), features, now()))
}

#[test]
fn living_pods_use_what_they_ask_for() {
    let sized = || asking("cpu=500m memory=1Gi example.com/gpu=1 / cpu=1 memory=2Gi");
    let done = pod_with(json!({"containers": [container("cpu=1")]}), json!({"phase": "Succeeded"}));
    #[rustfmt::skip]
    let table = [
        // case                pods                        words                                   used
        ("nothing there",      vec![],                     "pods requests.cpu",                    "pods=0 requests.cpu=0"),
        ("one",                vec![sized()],              "cpu requests.cpu limits.cpu",          "cpu=500m limits.cpu=1 requests.cpu=500m"),
        ("sums keep units",    vec![sized(), sized()],     "memory limits.memory pods",            "limits.memory=4Gi memory=2Gi pods=2"),
        ("extended resources", vec![sized(), sized()],     "requests.example.com/gpu",             "requests.example.com/gpu=2"),
        ("huge pages",         vec![asking("hugepages-2Mi=4Mi")], "hugepages-2Mi requests.hugepages-2Mi", "hugepages-2Mi=4Mi requests.hugepages-2Mi=4Mi"),
        ("ended",              vec![sized(), done],        "pods count/pods requests.cpu",         "count/pods=2 pods=1 requests.cpu=500m"),
    ];
    for (case, pods, names, want) in table {
        let names: Vec<&str> = names.split(' ').collect();
        assert_eq!(of_pods(&pods, &names, ALL), want, "{case}");
    }
}

#[test]
fn a_pod_that_is_stuck_at_its_end_is_not_charged() {
    #[rustfmt::skip]
    let table = [
        // case                         deleted                 grace         charged
        ("within its grace",            "2026-06-15T11:59:50Z", json!(30),   1),
        ("at the end of its grace",     "2026-06-15T11:59:30Z", json!(30),   1),
        ("beyond its grace",            "2026-06-15T11:59:29Z", json!(30),   0),
        ("without one",                 "2026-06-15T11:00:00Z", json!(null), 1),
        ("with one that never ends",    "2026-06-15T11:00:00Z", json!(i64::MAX), 1),
    ];
    for (case, deleted, grace, charged) in table {
        let pod = json!({"metadata": {"name": "p", "deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace}});
        let pod: Arc<Pod> = Arc::new(serde_json::from_value(pod).unwrap());
        assert_eq!(of_pods(&[pod], &["pods"], ALL), format!("pods={charged}"), "{case}");
    }
}

#[test]
fn what_a_pod_needs_is_more_than_the_sum_of_its_containers() {
    let sidecar = |text: &str| {
        let mut container = container(text);
        container["restartPolicy"] = json!("Always");
        container
    };
    #[rustfmt::skip]
    let table = [
        ("overhead is added",                 json!({"containers": [container("cpu=1")], "overhead": {"cpu": "250m"}}),                     "1250m"),
        ("an init container sets the floor",  json!({"containers": [container("cpu=1")], "initContainers": [container("cpu=3")]}),          "3"),
        ("sidecars run beside",               json!({"containers": [container("cpu=1")], "initContainers": [sidecar("cpu=2")]}),            "3"),
        ("init beside an earlier sidecar",    json!({"containers": [container("cpu=1")], "initContainers": [sidecar("cpu=2"), container("cpu=2")]}), "4"),
        ("the pod says so as a whole",        json!({"containers": [container("cpu=1")], "resources": {"requests": {"cpu": "5"}}}),         "5"),
    ];
    for (case, spec, want) in table {
        assert_eq!(of_pods(&[pod(spec)], &["requests.cpu"], ALL), format!("requests.cpu={want}"), "{case}");
    }
    let whole = pod(json!({"containers": [container("cpu=1")], "resources": {"requests": {"cpu": "5"}}}));
    let off = Features { pod_level_resources: false, ..ALL };
    assert_eq!(of_pods(&[whole], &["requests.cpu"], off), "requests.cpu=1");
}

#[test]
fn while_a_pod_is_resized_the_larger_side_counts() {
    let resized = |condition: serde_json::Value| {
        pod_with(
            json!({"containers": [container("cpu=1")]}),
            json!({"phase": "Running", "conditions": condition,
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}]}),
        )
    };
    assert_eq!(of_pods(&[resized(json!([]))], &["requests.cpu"], ALL), "requests.cpu=3");
    let refused = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    assert_eq!(of_pods(&[resized(refused)], &["requests.cpu"], ALL), "requests.cpu=3");
    assert_eq!(
        of_pods(&[resized(json!([]))], &["requests.cpu"], Features { resize: false, ..ALL }),
        "requests.cpu=1"
    );
}

#[test]
fn services_take_ports_and_balancers() {
    let ports = json!([{"port": 1, "nodePort": 30001}, {"port": 2}]);
    #[rustfmt::skip]
    let table = [
        ("inside",                        json!({"type": "ClusterIP", "ports": ports}),     "services=1 services.loadbalancers=0 services.nodeports=0"),
        ("on nodes",                      json!({"type": "NodePort", "ports": ports}),      "services=1 services.loadbalancers=0 services.nodeports=2"),
        ("balanced",                      json!({"type": "LoadBalancer", "ports": ports}),  "services=1 services.loadbalancers=1 services.nodeports=2"),
        ("balanced without node ports",   json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}), "services=1 services.loadbalancers=1 services.nodeports=1"),
        ("balanced, saying so",           json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": true}),  "services=1 services.loadbalancers=1 services.nodeports=2"),
    ];
    for (case, spec, want) in table {
        let used =
            services::usage(&[service(spec)], &["services", "services.nodeports", "services.loadbalancers"]);
        assert_eq!(shown(&used), want, "{case}");
    }
}

#[test]
fn claims_take_bytes_of_their_class() {
    const GOLD: &str = "gold.storageclass.storage.k8s.io/requests.storage";
    const GOLD_CLAIMS: &str = "gold.storageclass.storage.k8s.io/persistentvolumeclaims";
    let gold = |size: &str| json!({"storageClassName": "gold", "resources": {"requests": {"storage": size}}});
    let tin = json!({"storageClassName": "tin", "resources": {"requests": {"storage": "1Gi"}}});
    let mut annotated = flyball_api::PersistentVolumeClaim::clone(&claim(tin.clone(), json!({})));
    annotated.metadata.annotations =
        [("volume.beta.kubernetes.io/storage-class", "gold")].into_iter().collect();
    #[rustfmt::skip]
    let table = [
        ("of the class",             claim(gold("2Gi"), json!({})),                                           "1 2Gi 1 2Gi"),
        ("of another",               claim(tin, json!({})),                                                   "0 0 1 1Gi"),
        ("by annotation",            Arc::new(annotated),                                                     "1 1Gi 1 1Gi"),
        ("parts of a byte",          claim(gold("1500m"), json!({})),                                         "1 2 1 2"),
        ("an expansion taken back",  claim(gold("2Gi"), json!({"allocatedResources": {"storage": "5Gi"}})),   "1 5Gi 1 5Gi"),
        ("an expansion under way",   claim(gold("5Gi"), json!({"allocatedResources": {"storage": "2Gi"}})),   "1 5Gi 1 5Gi"),
        ("without a size",           claim(json!({"storageClassName": "gold"}), json!({})),                   "1 0 1 0"),
    ];
    for (case, claim, want) in table {
        let names = [GOLD_CLAIMS, GOLD, "persistentvolumeclaims", "requests.storage"];
        let used = volume_claims::usage(&[claim], &names, &Scopes::default(), ALL);
        let got = names.map(|name| used.get(name).unwrap().to_string()).join(" ");
        assert_eq!(got, want, "{case}");
    }
    let back = claim(gold("2Gi"), json!({"allocatedResources": {"storage": "5Gi"}}));
    let off = Features { volume_recovery: false, ..ALL };
    assert_eq!(
        shown(&volume_claims::usage(&[back], &["requests.storage"], &Scopes::default(), off)),
        "requests.storage=2Gi"
    );
}
