//! Observers: rules that must hold all the time, not only at the end.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::shared::Shared;

/// Watches all pods: no ReplicaSet or StatefulSet ever has more live ones than its app may have, no Job ever makes more
/// than it needs. Two ReplicaSets of a Deployment may have more together for a short time, as upstream: one grows as soon as
/// the scale-down of the other is accepted.
pub(super) async fn pods(shared: Shared) {
    let mut seen = Pods::default();
    shared
        .follow("/api/v1/pods", |pod, is_there| {
            if pod.is_null() {
                seen.live.clear();
                return;
            }
            if seen.all.insert(text(&pod["metadata"]["uid"]).to_owned()) {
                shared.ledger.count("pods");
            }
            seen.note(pod, is_there);
            if let Some(excess) = seen.excess(pod, &shared) {
                shared.ledger.violation(excess);
            }
        })
        .await;
}

/// Watches all attachments: an exclusive disk has an attachment to one node only.
pub(super) async fn attachments(shared: Shared) {
    let mut nodes: HashMap<String, HashMap<String, String>> = HashMap::new();
    shared
        .follow("/apis/storage.k8s.io/v1/volumeattachments", |attachment, is_there| {
            if attachment.is_null() {
                nodes.clear();
                return;
            }
            let (name, spec) = (text(&attachment["metadata"]["name"]), &attachment["spec"]);
            let volume = text(&spec["source"]["persistentVolumeName"]);
            let of_volume = nodes.entry(volume.to_owned()).or_default();
            if is_there {
                if of_volume.insert(name.to_owned(), text(&spec["nodeName"]).to_owned()).is_none() {
                    shared.ledger.count("volume attachments");
                }
            } else {
                of_volume.remove(name);
            }
            if of_volume.len() > 1 {
                shared.ledger.violation(format!(
                    "volume {volume} has VolumeAttachments for several nodes: {of_volume:?}"
                ));
            }
        })
        .await;
}

#[derive(Default)]
struct Pods {
    all: HashSet<String>,
    /// A controller's uid, and those of its live pods.
    live: HashMap<String, HashSet<String>>,
    /// A Job's uid, and those of all pods that it ever had.
    of_job: HashMap<String, HashSet<String>>,
}

impl Pods {
    fn note(&mut self, pod: &Value, is_there: bool) {
        let meta = &pod["metadata"];
        let uid = text(&meta["uid"]).to_owned();
        let ended = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
        let Some((kind, owner)) = owner_of(pod) else { return };
        let live = self.live.entry(owner.to_owned()).or_default();
        if is_there && !ended && !meta["deletionTimestamp"].is_string() {
            live.insert(uid.clone());
        } else {
            live.remove(&uid);
        }
        if kind == "Job" {
            self.of_job.entry(owner.to_owned()).or_default().insert(uid);
        }
    }

    fn excess(&self, pod: &Value, shared: &Shared) -> Option<String> {
        let (namespace, app) = app_of(pod);
        let most = shared.ledger.most(&namespace, &app)?;
        let (kind, owner) = owner_of(pod)?;
        let pods = if kind == "Job" { &self.of_job } else { &self.live };
        let count = pods.get(owner)?.len();
        (count > most)
            .then(|| format!("a {kind} of {namespace}/{app} has {count} pods where {most} are the most"))
    }
}

fn app_of(pod: &Value) -> (String, String) {
    let meta = &pod["metadata"];
    (text(&meta["namespace"]).to_owned(), text(&meta["labels"]["app"]).to_owned())
}

/// Kind and uid of the controller.
fn owner_of(pod: &Value) -> Option<(&str, &str)> {
    let mut owners = pod["metadata"]["ownerReferences"].as_array()?.iter();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    Some((owner["kind"].as_str()?, owner["uid"].as_str()?))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
