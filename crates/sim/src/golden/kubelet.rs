//! Plays scheduler, kubelet and node heartbeats in the background, at the pace that recordings were made with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

use super::normalise::{items, text};
use super::stage::Stage;
use super::steps::arguments::{Kubelet as Mode, PodPhase, PodState};
use super::text::matches_labels;
use crate::api::Error;

const TICK: Duration = Duration::from_millis(100);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Runs the pods of a scenario's namespace. What a pod does follows from the image of its first container:
/// `never-ready` runs without becoming ready, `pending` is bound but never starts, `unschedulable` is never bound,
/// `exit-N` ends with that code, `stuck` does not confirm its deletion, anything else runs and is ready.
pub(super) struct Kubelet {
    /// Held while pods are touched: steps and the kubelet take turns.
    mode: Arc<tokio::sync::Mutex<Mode>>,
    task: JoinHandle<()>,
}

impl Kubelet {
    pub(super) fn start(stage: Arc<Stage>) -> Self {
        let mode = Arc::new(tokio::sync::Mutex::new(Mode::default()));
        let shared = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            loop {
                {
                    let mode = shared.lock().await;
                    if mode.on
                        && let Err(error) = tick(&stage, &mode).await
                        && !matches!(error.code(), Some(404 | 409))
                    {
                        tracing::warn!(%error, "the simulated kubelet failed");
                    }
                }
                tokio::time::sleep(TICK).await;
            }
        });
        Self { mode, task }
    }

    /// Keeps the kubelet from acting until the guard is dropped; the mode can be changed through it.
    pub(super) async fn pause(&self) -> OwnedMutexGuard<Mode> {
        Arc::clone(&self.mode).lock_owned().await
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn tick(stage: &Stage, mode: &Mode) -> Result<(), Error> {
    for mut pod in stage.api.list_named("pods", Some(&stage.namespace), None).await? {
        if mode.except.as_ref().is_some_and(|except| matches_labels(except, &pod["metadata"]["labels"])) {
            continue;
        }
        let duty = duty(&pod, mode.hold_delete);
        match duty {
            Duty::Nothing => {}
            Duty::Bind => stage.bind(&pod, &mode.nodes, None).await?,
            Duty::ConfirmDelete => stage.finish_delete(&pod).await?,
            Duty::Report(phase, exit_code) => {
                let state = PodState { exit_code, ..PodState::simply(phase) };
                stage.report(&mut pod, &state).await?;
            }
        }
    }
    Ok(())
}

/// What is to be done for a pod.
#[derive(Debug, PartialEq)]
enum Duty {
    Nothing,
    Bind,
    ConfirmDelete,
    Report(PodPhase, Option<i64>),
}

fn duty(pod: &Value, hold_delete: bool) -> Duty {
    let image = text(&pod["spec"]["containers"][0]["image"]);
    let image = image.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let bound = !text(&pod["spec"]["nodeName"]).is_empty();
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return if bound && image != "stuck" && !hold_delete { Duty::ConfirmDelete } else { Duty::Nothing };
    }
    if !bound {
        let gated = !items(&pod["spec"]["schedulingGates"]).is_empty();
        return if image == "unschedulable" || gated { Duty::Nothing } else { Duty::Bind };
    }
    if !matches!(text(&pod["status"]["phase"]), "" | "Pending") {
        return Duty::Nothing;
    }
    let exit_code = image.strip_prefix("exit-").and_then(|code| code.parse().ok());
    match (image, exit_code) {
        ("pending", _) => Duty::Nothing,
        ("never-ready", _) => Duty::Report(PodPhase::Running, None),
        (_, Some(0)) => Duty::Report(PodPhase::Succeeded, Some(0)),
        (_, Some(code)) => Duty::Report(PodPhase::Failed, Some(code)),
        _ => Duty::Report(PodPhase::Ready, None),
    }
}

/// Keeps nodes alive.
pub(super) struct Heart {
    nodes: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Heart {
    pub(super) fn start(stage: Arc<Stage>) -> Self {
        let nodes = Arc::new(Mutex::new(BTreeSet::<String>::new()));
        let shared = Arc::clone(&nodes);
        let task = tokio::spawn(async move {
            loop {
                let nodes: Vec<String> = shared.lock().iter().cloned().collect();
                for node in nodes {
                    if let Err(error) = stage.beat(&node).await {
                        tracing::debug!(%error, node, "a heartbeat failed"); // the node may be gone
                    }
                }
                tokio::time::sleep(HEARTBEAT).await;
            }
        });
        Self { nodes, task }
    }

    pub(super) fn set(&self, node: &str, beats: bool) {
        let mut nodes = self.nodes.lock();
        if beats {
            nodes.insert(node.to_owned());
        } else {
            nodes.remove(node);
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_image_says_what_a_pod_does() {
        let pod = |image: &str, node: &str, phase: &str| {
            json!({
                "metadata": {}, "spec": {"nodeName": node, "containers": [{"image": image}]},
                "status": {"phase": phase},
            })
        };
        #[rustfmt::skip]
        let table = [
            ("nginx",                "",  "Pending", Duty::Bind),
            ("x/unschedulable:1",    "",  "Pending", Duty::Nothing),
            ("nginx",                "n", "Pending", Duty::Report(PodPhase::Ready, None)),
            ("reg:5000/never-ready", "n", "Pending", Duty::Report(PodPhase::Running, None)),
            ("pending",              "n", "Pending", Duty::Nothing),
            ("exit-0",               "n", "Pending", Duty::Report(PodPhase::Succeeded, Some(0))),
            ("exit-3:v1",            "n", "Pending", Duty::Report(PodPhase::Failed, Some(3))),
            ("nginx",                "n", "Running", Duty::Nothing),
        ];
        for (image, node, phase, want) in table {
            assert_eq!(duty(&pod(image, node, phase), false), want, "{image} on {node:?}");
        }
        let mut gone = pod("nginx", "n", "Running");
        gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(duty(&gone, false), Duty::ConfirmDelete);
        assert_eq!(duty(&gone, true), Duty::Nothing);
    }
}
