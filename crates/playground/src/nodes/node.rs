//! Node objects and heartbeats of simulated nodes.

use std::net::Ipv4Addr;

use flyball_api::Timestamp;
use flyball_api::node::Node;
use flyball_api::time::{format_micros, format_seconds};
use flyball_cloud::simulated::Machine;
use serde_json::{Value, json};

/// Label of the simulated nodes.
pub const SIMULATED: &str = "flyball.dev/simulated";
/// A node with this annotation is switched off: it sends no heartbeats, and its pods stay as they are.
pub const STOPPED: &str = "flyball.dev/stopped";
/// What the kubelet on a machine of a simulated cloud reports as its UUID; empty if the cloud does not say.
const SYSTEM_UUID: &str = "flyball.dev/system-uuid";
pub const KUBELET_PORT: u16 = 10_250;
pub const LEASES: &str = "kube-node-lease";
/// `leaseDurationSeconds` of a node's lease.
const LEASE_SECONDS: u32 = 40;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// The name of the n-th node, counted from one.
pub fn name(n: u16) -> String {
    format!("node-{n}")
}

/// The Node object that a node registers.
pub fn manifest(n: u16) -> Value {
    let name = name(n);
    let zone = ZONES[usize::from(n.saturating_sub(1)) % ZONES.len()];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": arch(), "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch(), "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
                "topology.kubernetes.io/region": "playground", "topology.kubernetes.io/zone": zone,
                SIMULATED: "true",
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"podCIDR": range(n), "podCIDRs": [range(n)], "providerID": format!("flyball://{name}")},
    })
}

/// The Node object that the kubelet on a machine of a cloud registers: the cloud's controllers complete it. `n` is for the range of
/// its pods.
pub fn manifest_of_machine(machine: &Machine, n: u16) -> Value {
    let Machine { name, system_uuid, .. } = machine;
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": arch(), "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch(), "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
                SIMULATED: "true",
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                SYSTEM_UUID: system_uuid,
            },
        },
        "spec": {
            "podCIDR": range(n), "podCIDRs": [range(n)],
            "taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}],
        },
    })
}

/// The `status` of a running node.
pub fn status(node: &Node, now: Timestamp) -> Value {
    let conditions: Vec<Value> = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status"),
    ]
    .iter()
    .map(|(type_, status, reason, message)| {
        let since = node
            .condition(type_)
            .filter(|condition| condition.status == *status)
            .and_then(|condition| condition.last_transition_time)
            .map_or_else(|| format_seconds(now), format_seconds);
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": format_seconds(now), "lastTransitionTime": since,
        })
    })
    .collect();
    let mut status = json!({
        "conditions": conditions,
        "nodeInfo": {
            "architecture": arch(), "operatingSystem": "linux", "kernelVersion": "simulated",
            "osImage": "Flyball (simulated)", "kubeletVersion": "v1.36.4", "kubeProxyVersion": "",
            "containerRuntimeVersion": concat!("flyball://", env!("CARGO_PKG_VERSION")),
            "machineID": "", "systemUUID": "", "bootID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
    });
    // What a node is known to have stays: it may be that of another cluster, in a replay.
    if node.status.allocatable.is_empty() {
        let amounts = json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"});
        status["capacity"] = amounts.clone();
        status["allocatable"] = amounts;
    }
    match node.metadata.annotations.get(SYSTEM_UUID) {
        // A machine of a cloud, which knows its addresses.
        Some(uuid) => status["nodeInfo"]["systemUUID"] = json!(uuid),
        None if !node.status.addresses.is_empty() => {}
        None => {
            let ip = number(&node.metadata.name).map_or(Ipv4Addr::LOCALHOST, address);
            status["addresses"] = json!([
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": node.metadata.name},
            ]);
        }
    }
    status
}

/// The Lease of a node.
pub fn lease(node: &Node, now: Timestamp) -> Value {
    let name = &node.metadata.name;
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid.to_string()}],
        },
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": format_micros(now),
        },
    })
}

/// Whether a node is simulated.
pub fn is_simulated(node: &Node) -> bool {
    node.metadata.labels.get(SIMULATED) == Some("true")
}

/// Whether a node is switched off.
pub fn is_stopped(node: &Node) -> bool {
    node.metadata.annotations.contains_key(STOPPED)
}

/// The address of a node, from its status or, without one, from its number.
pub fn host_ip(node: &Node) -> String {
    let reported = node.status.addresses.iter().find(|address| address.type_ == "InternalIP");
    match (reported, number(&node.metadata.name)) {
        (Some(address), _) => address.address.to_string(),
        (None, Some(n)) => address(n).to_string(),
        (None, None) => Ipv4Addr::LOCALHOST.to_string(),
    }
}

/// The n of `node-n`.
fn number(name: &str) -> Option<u16> {
    name.strip_prefix("node-")?.parse().ok()
}

/// The address of the n-th node.
fn address(n: u16) -> Ipv4Addr {
    let [high, low] = n.to_be_bytes();
    Ipv4Addr::new(172, 18, high, low)
}

/// The range of the n-th node's pods: 10.244.1.0/24 for the first.
pub(super) fn range(n: u16) -> String {
    let [high, low] = n.to_be_bytes();
    let second = 244_u8.saturating_add(high);
    format!("10.{second}.{low}.0/24")
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
