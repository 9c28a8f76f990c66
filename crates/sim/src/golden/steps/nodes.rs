//! Steps about nodes: creating them, and their heartbeats.

use http::Method;
use serde_json::{Value, json};

use super::arguments::{Heartbeat, Nodes};
use super::objects::apply_one;
use crate::api::{Call, Content};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::run::Run;

/// Creates nodes with their status; those with a heartbeat also get leases, which are renewed from now on.
pub(super) async fn make<B: Backend>(run: &mut Run<'_, B>, step: &Nodes) -> Result<(), StepError> {
    for name in &step.names {
        let mut labels = json!({"kubernetes.io/hostname": name});
        for (key, value) in &step.labels {
            labels[key] = value.clone();
        }
        let node = run.fill(&json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": step.annotations},
            "spec": step.spec,
        }));
        apply_one(run, node).await?;
        let path = format!("/api/v1/nodes/{name}");
        // Deleted after the scenario.
        run.tracked.push(path.clone());
        let lifecycle_runs =
            run.scenario.controllers.iter().any(|c| matches!(c.as_str(), "node-lifecycle-controller" | "*"));
        if !lifecycle_runs {
            // Admission taints every new node as not ready, which the node lifecycle controller would undo.
            let taints = step.spec.get("taints").cloned().unwrap_or_default();
            let body = json!({"spec": {"taints": taints}});
            run.api.send(Call::new(Method::PATCH, &path).body(&body, Content::MergePatch)).await?;
        }
        let mut status = json!({
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        });
        for (key, value) in &step.status {
            status[key] = value.clone();
        }
        let status_path = format!("{path}/status");
        let body = json!({"status": status});
        run.api.send(Call::new(Method::PATCH, &status_path).body(&body, Content::MergePatch)).await?;
        // A node without a given readiness is not ready when it sends a heartbeat.
        run.stage.set_node_ready(name, step.ready.unwrap_or(false));
        if step.ready.is_some() && step.status.get("conditions").is_none_or(Value::is_null) {
            run.stage.report_node(name).await?;
        }
        if step.heartbeat {
            run.stage.beat(name).await?;
            run.heart.set(name, true);
        }
    }
    Ok(())
}

/// Starts or stops the heartbeats of nodes, and sets the readiness that they report.
pub(super) fn heartbeat<B: Backend>(run: &Run<'_, B>, step: &Heartbeat) {
    for node in &step.nodes {
        if let Some(ready) = step.ready {
            run.stage.set_node_ready(node, ready);
        }
        run.heart.set(node, step.on);
    }
}
