//! Steps about pods: selecting them, and what a scheduler, a kubelet or a user does to them.

use http::Method;
use serde_json::{Value, json};

use super::arguments::{Bind, ConfirmDelete, DeletePods, Evict, Label, Pick, Pods, Terminating, Which};
use crate::api::{Call, Content, message};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::normalise::text;
use crate::golden::run::Run;
use crate::golden::text::natural;

const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The selected pods, in the natural order of their normalised names.
async fn picked<B: Backend>(run: &Run<'_, B>, pick: &Pick) -> Result<Vec<Value>, StepError> {
    run.observe().await?;
    let pods = run.api.list_named("pods", Some(&run.stage.namespace), pick.select.as_deref()).await?;
    let mut named: Vec<(String, Value)> = pods
        .into_iter()
        .map(|pod| (run.stage.names(|names| names.text(text(&pod["metadata"]["name"]))), pod))
        .filter(|(name, pod)| matches(pick, name, pod))
        .collect();
    named.sort_by_cached_key(|(name, _)| natural(name));
    let all: Vec<Value> = named.into_iter().map(|(_, pod)| pod).collect();
    let picked: Vec<Value> = match &pick.pick {
        Which::All => all,
        Which::First(count) => all.into_iter().take(*count).collect(),
        Which::At(places) => {
            let at = |place: &usize| all.get(*place).cloned();
            let missing = || StepError::failed(format!("{} pods match, too few for {places:?}", all.len()));
            places.iter().map(at).collect::<Option<_>>().ok_or_else(missing)?
        }
    };
    if picked.is_empty() && !pick.optional {
        return Err(StepError::failed(format!("no pod matches {pick:?}")));
    }
    Ok(picked)
}

fn matches(pick: &Pick, name: &str, pod: &Value) -> bool {
    let meta = &pod["metadata"];
    let named = pick.names.is_empty() || pick.names.iter().any(|n| n == name || n == text(&meta["name"]));
    let index = text(&meta["annotations"][COMPLETION_INDEX]);
    let indexed = pick.index.as_ref().is_none_or(|wanted| wanted.iter().any(|i| i == index));
    let phase = match text(&pod["status"]["phase"]) {
        "" => "Pending",
        phase => phase,
    };
    let in_phase = match &pick.phase {
        Some(wanted) => phase == wanted,
        None => pick.finished || !matches!(phase, "Succeeded" | "Failed"),
    };
    let on_node = pick.node.as_ref().is_none_or(|node| text(&pod["spec"]["nodeName"]) == node);
    let deleting = meta["deletionTimestamp"].is_string();
    let alive = match pick.terminating {
        Terminating::Any => true,
        Terminating::Only => deleting,
        Terminating::No => !deleting,
    };
    named && indexed && in_phase && on_node && alive
}

pub(super) async fn report<B: Backend>(run: &Run<'_, B>, step: &Pods) -> Result<(), StepError> {
    let mut state = step.state.clone();
    if let Some(status) = state.status.take() {
        state.status = run.fill(&Value::Object(status)).as_object().cloned();
    }
    let _turn = run.kubelet.pause().await;
    for mut pod in picked(run, &step.pods).await? {
        if step.bind && text(&pod["spec"]["nodeName"]).is_empty() {
            run.stage.bind(&pod, &step.nodes, None).await?;
        }
        run.stage.report(&mut pod, &state).await?;
    }
    Ok(())
}

pub(super) async fn bind<B: Backend>(run: &Run<'_, B>, step: &Bind) -> Result<(), StepError> {
    for pod in picked(run, &step.pods).await? {
        if text(&pod["spec"]["nodeName"]).is_empty() {
            run.stage.bind(&pod, &step.nodes, step.node.as_deref()).await?;
        }
    }
    Ok(())
}

pub(super) async fn label<B: Backend>(run: &Run<'_, B>, step: &Label) -> Result<(), StepError> {
    let mut body = json!({"metadata": {}});
    for (field, value) in [("labels", &step.labels), ("annotations", &step.annotations)] {
        if let Some(value) = value {
            body["metadata"][field] = value.clone();
        }
    }
    for pod in picked(run, &step.pods).await? {
        let path = run.stage.pod_path(text(&pod["metadata"]["name"]));
        run.api.send(Call::new(Method::PATCH, &path).body(&body, Content::MergePatch)).await?;
    }
    Ok(())
}

pub(super) async fn delete<B: Backend>(run: &Run<'_, B>, step: &DeletePods) -> Result<(), StepError> {
    let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if let Some(grace) = step.grace {
        body["gracePeriodSeconds"] = grace.into();
    }
    for pod in picked(run, &step.pods).await? {
        let path = run.stage.pod_path(text(&pod["metadata"]["name"]));
        run.api.send(Call::new(Method::DELETE, &path).body(&body, Content::Json)).await?;
    }
    Ok(())
}

pub(super) async fn confirm_delete<B: Backend>(
    run: &Run<'_, B>,
    step: &ConfirmDelete,
) -> Result<(), StepError> {
    for pod in picked(run, &step.pods).await? {
        run.stage.finish_delete(&pod).await?;
    }
    Ok(())
}

pub(super) async fn evict<B: Backend>(run: &Run<'_, B>, step: &Evict) -> Result<(), StepError> {
    for pod in picked(run, &step.pods).await? {
        let name = text(&pod["metadata"]["name"]);
        let path = run.stage.pod_path(name) + "/eviction";
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let call = Call::new(Method::POST, &path).body(&body, Content::Json).tolerate(&[429, 500]);
        let (code, answer) = run.api.send(call).await?;
        if code != step.code {
            return Err(StepError::failed(format!("the eviction answered {code} {}", message(&answer))));
        }
    }
    Ok(())
}
