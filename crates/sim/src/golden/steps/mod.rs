//! What the steps of a scenario do, one file per concern.

pub(super) mod arguments;
mod certificates;
pub(super) mod files;
mod nodes;
mod objects;
mod pods;
mod waiting;

use serde_json::{Map, Value};

use super::StepError;
use super::backend::Backend;
use super::run::Run;
use super::scenario::{ManagerStep, Step};

/// Replaces parts of the simulated cloud.
pub(super) fn change_cloud<B: Backend>(
    run: &mut Run<'_, B>,
    parts: &Map<String, Value>,
) -> Result<(), StepError> {
    for (part, new) in parts {
        match run.fill(new) {
            Value::Null => drop(run.cloud.remove(part)),
            new => drop(run.cloud.insert(part.clone(), new)),
        }
    }
    run.backend.set_cloud(&run.cloud)
}

pub(super) async fn perform<B: Backend>(run: &mut Run<'_, B>, step: &Step) -> Result<(), StepError> {
    match step {
        Step::Apply(manifests) => objects::apply(run, manifests).await,
        Step::Generate(step) => objects::generate(run, step).await,
        Step::Refused(step) => objects::refused(run, step).await,
        Step::Patch(step) => objects::patch(run, step).await,
        Step::Scale(step) => objects::scale(run, step).await,
        Step::Delete(step) => objects::delete(run, step).await,
        Step::Var(places) => objects::remember(run, places).await,
        Step::Raw(step) => objects::raw(run, step).await,
        Step::Pods(step) => pods::report(run, step).await,
        Step::Bind(step) => pods::bind(run, step).await,
        Step::Label(step) => pods::label(run, step).await,
        Step::DeletePods(step) => pods::delete(run, step).await,
        Step::ConfirmDelete(step) => pods::confirm_delete(run, step).await,
        Step::Evict(step) => pods::evict(run, step).await,
        Step::Kubelet(mode) => {
            *run.kubelet.pause().await = mode.clone();
            Ok(())
        }
        Step::Nodes(step) => nodes::make(run, step).await,
        Step::Heartbeat(step) => {
            nodes::heartbeat(run, step);
            Ok(())
        }
        Step::Csr(step) => certificates::request(run, step).await,
        Step::Wait(step) => waiting::wait(run, step).await,
        Step::Settle(step) => {
            waiting::settle(run, *step).await;
            Ok(())
        }
        Step::Seen(resources) => waiting::seen(run, resources).await,
        Step::Sleep(seconds) => waiting::sleep(*seconds).await,
        Step::NextMinute(second) => {
            tokio::time::sleep(run.stage.clock.until_second(*second)).await;
            Ok(())
        }
        Step::Cloud(parts) => change_cloud(run, parts),
        Step::Files(files) => run.files.write(files),
        Step::Manager(ManagerStep::Stop) => {
            run.backend.stop_kcm().await;
            Ok(())
        }
        Step::Manager(ManagerStep::Start | ManagerStep::Restart) => {
            let flags = run.files.fill(&run.scenario.flags)?;
            run.backend.start_kcm(&run.scenario.controllers, &flags).await
        }
        Step::Snapshot(step) => waiting::snapshot(run, step).await,
    }
}
