//! Shared by the simulated scheduler, kubelet and nodes: the namespace of a scenario, and how to bind pods, report their
//! status and send heartbeats.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::clock::Clock;
use super::normalise::{Normaliser, items, text};
use super::pod_action::PodAction;
use super::steps::arguments::{PodPhase, PodState};
use crate::api::{Api, Call, Content, Error};

/// The cluster as scheduler, kubelet and nodes see it.
pub(crate) struct Stage {
    pub(crate) api: Arc<Api>,
    pub(crate) namespace: String,
    pub(super) clock: Clock,
    families: Vec<String>,
    /// Never held across a request.
    memory: Mutex<Memory>,
}

struct Memory {
    normaliser: Normaliser,
    addresses: HashMap<String, Vec<Value>>,
    bound: usize,
    node_ready: BTreeMap<String, bool>,
}

impl Stage {
    pub(crate) fn new(api: Arc<Api>, namespace: String, clock: Clock, families: Vec<String>) -> Self {
        let memory = Memory {
            normaliser: Normaliser::new(&namespace),
            addresses: HashMap::new(),
            bound: 0,
            node_ready: BTreeMap::new(),
        };
        Self { api, namespace, clock, families, memory: Mutex::new(memory) }
    }

    /// Reads or changes the placeholders.
    pub(super) fn names<T>(&self, act: impl FnOnce(&mut Normaliser) -> T) -> T {
        act(&mut self.memory.lock().normaliser)
    }

    pub(super) fn set_node_ready(&self, node: &str, ready: bool) {
        self.memory.lock().node_ready.insert(node.to_owned(), ready);
    }

    pub(super) fn pod_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{name}", self.namespace)
    }

    /// Performs the next step of scheduler or kubelet.
    pub(crate) async fn perform(
        &self,
        pod: &mut Value,
        action: PodAction,
        nodes: &[String],
    ) -> Result<(), Error> {
        match action {
            PodAction::Nothing => Ok(()),
            PodAction::Bind => self.bind(pod, nodes, None).await,
            PodAction::ConfirmDelete => self.finish_delete(pod).await,
            PodAction::Report(phase, exit_code) => {
                let state = PodState { exit_code, ..PodState::simply(phase) };
                self.report(pod, &state).await
            }
        }
    }

    /// Binds a pod: to the node it names, or to the next of `nodes`.
    pub(super) async fn bind(&self, pod: &Value, nodes: &[String], node: Option<&str>) -> Result<(), Error> {
        let node = match node.map(str::to_owned).or_else(|| pinned_node(pod)) {
            Some(node) => node,
            None => self.next_node(nodes),
        };
        let name = text(&pod["metadata"]["name"]);
        let path = self.pod_path(name) + "/binding";
        let body = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        });
        self.api
            .send(Call::new(Method::POST, &path).body(&body, Content::Json).tolerate(&[404, 409]))
            .await?;
        Ok(())
    }

    fn next_node(&self, nodes: &[String]) -> String {
        if nodes.is_empty() {
            return "node-1".to_owned();
        }
        let mut memory = self.memory.lock();
        let node = nodes[memory.bound % nodes.len()].clone();
        memory.bound += 1;
        node
    }

    /// Writes a pod's status, as its kubelet would.
    pub(super) async fn report(&self, pod: &mut Value, state: &PodState) -> Result<(), Error> {
        let status = self.status_of(pod, state);
        let path = self.pod_path(text(&pod["metadata"]["name"])) + "/status";
        let body = json!({"status": status});
        self.api
            .send(Call::new(Method::PATCH, &path).body(&body, Content::StrategicPatch).tolerate(&[404]))
            .await?;
        merge_fields(&mut pod["status"], status);
        let uid = text(&pod["metadata"]["uid"]);
        self.names(|names| {
            if names.knows(uid) {
                names.learn_addresses(pod);
            }
        });
        Ok(())
    }

    fn status_of(&self, pod: &Value, state: &PodState) -> Value {
        let now = self.clock.stamp(0);
        let since = match &state.ready_since {
            Some(Value::String(time)) => time.clone(),
            Some(seconds) => self.clock.stamp(seconds.as_i64().unwrap_or_default()),
            None => now.clone(),
        };
        let phase = state.set.phase();
        let ready = state.set == PodPhase::Ready;
        let done = matches!(state.set, PodPhase::Succeeded | PodPhase::Failed);
        let why = match state.set {
            PodPhase::Succeeded => Some("PodCompleted"),
            PodPhase::Failed => Some("PodFailed"),
            PodPhase::Ready => None,
            _ => Some("ContainersNotReady"),
        };
        let condition = |kind: &str, holds: bool, why: Option<&str>| {
            let status = if holds { "True" } else { "False" };
            let mut condition =
                json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
            if let Some(why) = why {
                condition["reason"] = why.into();
            }
            condition
        };
        let started = pod["status"]["startTime"].as_str().unwrap_or(&now);
        let mut status = json!({
            "phase": phase,
            "startTime": started,
            "conditions": [
                condition("PodScheduled", true, None),
                condition("Initialized", true, None),
                condition("Ready", ready, why),
                condition("ContainersReady", ready, why),
            ],
        });
        if state.set != PodPhase::Pending {
            let addresses = self.addresses(text(&pod["metadata"]["uid"]));
            status["podIP"] = addresses.first().map(|first| first["ip"].clone()).unwrap_or_default();
            status["podIPs"] = Value::Array(addresses);
            status["hostIP"] = "192.168.0.1".into();
            status["hostIPs"] = json!([{"ip": "192.168.0.1"}]);
        }
        if done || state.restarts != 0 || state.exit_code.is_some() {
            let code = state.exit_code.unwrap_or(i64::from(state.set != PodPhase::Succeeded));
            let reason = if code == 0 { "Completed" } else { "Error" };
            let container = if done {
                json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}})
            } else {
                json!({"running": {"startedAt": now}})
            };
            let containers = items(&pod["spec"]["containers"]).iter().map(|c| {
                json!({
                    "name": c["name"], "image": c["image"], "imageID": "", "ready": ready,
                    "restartCount": state.restarts, "state": container,
                })
            });
            status["containerStatuses"] = containers.collect();
        }
        if let Some(reason) = &state.reason {
            status["reason"] = reason.as_str().into();
        }
        if let Some(further) = &state.status {
            let mut further = further.clone();
            let conditions = further.remove("conditions");
            if let (Some(Value::Array(more)), Some(all)) = (conditions, status["conditions"].as_array_mut()) {
                all.extend(more);
            }
            merge_fields(&mut status, Value::Object(further));
        }
        status
    }

    fn addresses(&self, uid: &str) -> Vec<Value> {
        let mut memory = self.memory.lock();
        if let Some(known) = memory.addresses.get(uid) {
            return known.clone();
        }
        let number = memory.addresses.len() + 1;
        let addresses: Vec<Value> = self
            .families
            .iter()
            .map(|family| match family.as_str() {
                "4" => json!({"ip": format!("10.88.{}.{}", number / 250, number % 250 + 1)}),
                _ => json!({"ip": format!("fd00:88::{number:x}")}),
            })
            .collect();
        memory.addresses.insert(uid.to_owned(), addresses.clone());
        addresses
    }

    /// Finishes the deletion of a pod, as its kubelet would.
    pub(super) async fn finish_delete(&self, pod: &Value) -> Result<(), Error> {
        let path = self.pod_path(text(&pod["metadata"]["name"]));
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        });
        self.api
            .send(Call::new(Method::DELETE, &path).body(&body, Content::Json).tolerate(&[404, 409]))
            .await?;
        Ok(())
    }

    /// Renews a node's lease and status.
    pub(super) async fn beat(&self, node: &str) -> Result<(), Error> {
        const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let time = self.clock.micro_stamp();
        let path = format!("{LEASES}/{node}");
        let body = json!({"spec": {"renewTime": time}});
        let renew = Call::new(Method::PATCH, &path).body(&body, Content::MergePatch).tolerate(&[404]);
        if self.api.send(renew).await?.0 == 404 {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": node, "namespace": "kube-node-lease"},
                "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": time},
            });
            self.api
                .send(Call::new(Method::POST, LEASES).body(&lease, Content::Json).tolerate(&[409]))
                .await?;
        }
        self.report_node(node).await
    }

    pub(super) async fn report_node(&self, node: &str) -> Result<(), Error> {
        let path = format!("/api/v1/nodes/{node}");
        let now = self.clock.stamp(0);
        let ready = self.memory.lock().node_ready.get(node).copied().unwrap_or(true);
        let (status, why) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
        let present = self.api.get(&path).await?;
        let condition = |kind: &str, status: &str, why: &str| {
            let unchanged = items(&present["status"]["conditions"])
                .iter()
                .find(|old| old["type"] == kind && old["status"] == status)
                .map(|old| old["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "reason": why, "message": why, "lastHeartbeatTime": now,
                "lastTransitionTime": unchanged.unwrap_or_else(|| now.as_str().into()),
            })
        };
        let body = json!({"status": {"conditions": [
            condition("Ready", status, why),
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ]}});
        let path = path + "/status";
        self.api
            .send(Call::new(Method::PATCH, &path).body(&body, Content::StrategicPatch).tolerate(&[404]))
            .await?;
        Ok(())
    }
}

/// The node that a DaemonSet's pod is for.
fn pinned_node(pod: &Value) -> Option<String> {
    let terms = pod.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    )?;
    let mut fields = items(terms).iter().flat_map(|term| items(&term["matchFields"]));
    fields.rfind(|field| field["key"] == "metadata.name")?["values"][0].as_str().map(str::to_owned)
}

fn merge_fields(into: &mut Value, from: Value) {
    if !into.is_object() {
        *into = json!({});
    }
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
