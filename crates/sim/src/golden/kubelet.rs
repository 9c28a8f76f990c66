//! Simulates scheduler, kubelet and node heartbeats in the background, at the pace that recordings were made with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

use super::pod_action::{PodAction, next_action};
use super::stage::Stage;
use super::steps::arguments::Kubelet as Mode;
use super::text::matches_labels;
use crate::api::Error;

const TICK: Duration = Duration::from_millis(100);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Runs the pods of a scenario's namespace, as their images say (see [`next_action`]).
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
            let mut idle = None;
            loop {
                {
                    let mode = shared.lock().await;
                    let present = stage.api.state().map(|state| (state, mode.clone()));
                    if mode.on && (present.is_none() || present != idle) {
                        idle = match tick(&stage, &mode).await {
                            Ok(false) => present,
                            Ok(true) => None,
                            Err(error) => {
                                if !matches!(error.code(), Some(404 | 409)) {
                                    tracing::warn!(%error, "the simulated kubelet failed");
                                }
                                None
                            }
                        };
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

/// Does the next step for each pod; false if there was none.
async fn tick(stage: &Stage, mode: &Mode) -> Result<bool, Error> {
    let mut acted = false;
    for mut pod in stage.api.list_named("pods", Some(&stage.namespace), None).await? {
        if mode.except.as_ref().is_some_and(|except| matches_labels(except, &pod["metadata"]["labels"])) {
            continue;
        }
        let action = next_action(&pod, mode.hold_delete);
        acted |= action != PodAction::Nothing;
        stage.perform(&mut pod, action, &mode.nodes).await?;
    }
    Ok(acted)
}

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
