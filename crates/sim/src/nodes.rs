//! Simulates scheduler and kubelets for a namespace with thousands of pods: driven by a watch, many pods at a time. A pod's
//! image says how it behaves, as in golden scenarios.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::api::{Api, Error};
use crate::client::ApiClient;
use crate::golden::clock::Clock;
use crate::golden::{PodAction, Stage, next_action};

/// The limit on concurrent requests.
const AT_ONCE: usize = 32;

/// Runs the pods of one namespace until dropped.
pub struct Nodes {
    task: JoinHandle<()>,
}

impl Nodes {
    /// Runs existing and future pods on one node.
    pub fn start(client: Arc<dyn ApiClient>, api: Arc<Api>, namespace: &str) -> Self {
        Self::start_on(Vec::new(), client, api, namespace)
    }

    /// The same on several nodes, in turn.
    pub fn start_on(nodes: Vec<String>, client: Arc<dyn ApiClient>, api: Arc<Api>, namespace: &str) -> Self {
        let nodes: Arc<[String]> = nodes.into();
        let clock = Clock::starting_at(Timestamp::now());
        let stage = Arc::new(Stage::new(api, namespace.to_owned(), clock, vec!["4".to_owned()]));
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = follow(&*client, &stage, &nodes).await {
                    tracing::debug!(%error, "the simulated nodes lost their watch");
                }
                // The server may be unavailable for a while.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        Self { task }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: &dyn ApiClient, stage: &Arc<Stage>, nodes: &Arc<[String]>) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{}/pods", stage.namespace);
    let mut list = stage.api.get(&path).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    if let Value::Array(pods) = list["items"].take() {
        for pod in pods {
            act(stage, nodes, &turns, pod).await;
        }
    }
    let path = format!("{path}?watch=1&resourceVersion={version}");
    let Ok(mut events) = client.watch(&path).await else { return Ok(()) };
    while let Some(mut event) = events.next().await {
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => act(stage, nodes, &turns, event["object"].take()).await,
            Some("ERROR") => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

/// Does the next step for a pod in its own task; every change of the pod comes back as an event.
async fn act(stage: &Arc<Stage>, nodes: &Arc<[String]>, turns: &Arc<Semaphore>, mut pod: Value) {
    let action = next_action(&pod, false);
    if action == PodAction::Nothing {
        return;
    }
    let Ok(turn) = Arc::clone(turns).acquire_owned().await else { return };
    let (stage, nodes) = (Arc::clone(stage), Arc::clone(nodes));
    tokio::spawn(async move {
        // A pod that was changed or deleted meanwhile shows in a later event.
        if let Err(error) = stage.perform(&mut pod, action, &nodes).await {
            tracing::debug!(%error, "a simulated kubelet failed");
        }
        drop(turn);
    });
}
