//! Steps that wait: for a state of the cluster, or for the controller manager to come to rest.

use std::time::Duration;

use flyball_api::Key;
use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use super::arguments::{Awaited, Count, Settle, SnapshotStep, Terminating, Wait, Wanted};
use crate::api::{Call, Error};
use crate::golden::StepError;
use crate::golden::backend::Backend;
use crate::golden::dig::dig;
use crate::golden::normalise::{items, text};
use crate::golden::run::{Run, Target};
use crate::golden::snapshot;

/// Poll interval; recordings were made with it.
const LOOK: Duration = Duration::from_millis(100);
/// At rest: no write for this long.
const QUIET: f64 = 1.3;
/// Timeout for an event that faults may have dropped.
const LOST: f64 = 4.0;
/// A controller manager that does not come to rest is recorded as it is after this long.
const RESTLESS: f64 = 20.0;

pub(super) async fn sleep(seconds: f64) -> Result<(), StepError> {
    let length = Duration::try_from_secs_f64(seconds);
    tokio::time::sleep(length.map_err(|_| StepError::failed(format!("cannot sleep for {seconds} seconds")))?)
        .await;
    Ok(())
}

/// How long faults may keep keys waiting, longer than any of their waits: nothing is written meanwhile, but that is no rest.
const HELD_UP: Duration = Duration::from_secs(90);

/// Waits until the controller manager has not written for a while.
pub(super) async fn settle<B: Backend>(run: &mut Run<'_, B>, step: Settle) {
    let mut start = Instant::now();
    let mut last = start;
    let mut held_up = HELD_UP;
    while start.elapsed().as_secs_f64() < step.timeout.unwrap_or(RESTLESS) {
        let before = Instant::now();
        if run.backend.restore_noticed().await {
            start += before.elapsed();
            last = Instant::now();
        }
        let before = Instant::now();
        if run.backend.idle(held_up).await {
            held_up = held_up.saturating_sub(before.elapsed());
            start += before.elapsed();
            last = Instant::now();
        }
        if run.poll_requests() > 0 {
            last = Instant::now();
        }
        if last.elapsed().as_secs_f64() >= step.quiet.unwrap_or(QUIET) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the caches of the controller manager show the present objects of these resources.
pub(super) async fn seen<B: Backend>(run: &Run<'_, B>, resources: &[String]) -> Result<(), StepError> {
    for name in resources {
        let resource = run.api.resource(name).await?;
        let objects = run.api.list(&resource, Some(&run.stage.namespace), None).await?;
        let versions =
            objects.iter().filter_map(|object| text(&object["metadata"]["resourceVersion"]).parse().ok());
        if let Some(newest) = versions.max() {
            run.backend.seen(&resource, newest).await;
        }
    }
    Ok(())
}

pub(super) async fn snapshot<B: Backend>(run: &mut Run<'_, B>, step: &SnapshotStep) -> Result<(), StepError> {
    if step.settle {
        let quiet = step.quiet.or(run.scenario.quiet);
        settle(run, Settle { quiet, timeout: None }).await;
    }
    let _turn = run.kubelet.pause().await;
    snapshot::take(run, step).await
}

pub(super) async fn wait<B: Backend>(run: &Run<'_, B>, step: &Wait) -> Result<(), StepError> {
    let start = Instant::now();
    loop {
        run.backend.restore_noticed().await;
        let seen = match holds(run, &step.what).await {
            Ok(None) => {
                if let Awaited::Gone(target) = &step.what {
                    lost_sight(run, target).await;
                }
                return Ok(());
            }
            Ok(Some(seen)) => seen,
            Err(StepError::Api(e)) if e.code() == Some(404) => "not found".to_owned(),
            Err(StepError::Api(Error::Unknown(what))) => format!("no such {what}"),
            Err(StepError::Failed(why)) => why,
            Err(e) => return Err(e),
        };
        let may_be_lost = matches!(step.what, Awaited::Event { .. }) && run.backend.may_lose_events();
        let limit = step.timeout * if may_be_lost { run.patience.min(LOST) } else { run.patience };
        if start.elapsed().as_secs_f64() > limit {
            if step.optional || may_be_lost {
                return Ok(());
            }
            let what = &step.shown;
            return Err(StepError::failed(format!(
                "still waiting after {limit:.0}s for {what}; last seen: {seen}"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the controller manager knows, too, that an object is gone.
async fn lost_sight<B: Backend>(run: &Run<'_, B>, target: &str) {
    // One that is named by a pattern cannot be found any more.
    let Ok(Target { resource, namespace, name }) = run.target(target).await else { return };
    let key = if resource.namespaced { Key::new(namespace, name) } else { Key::cluster(name) };
    run.backend.lost_sight(&resource, &key).await;
}

/// `None` if it holds, else what was found instead.
async fn holds<B: Backend>(run: &Run<'_, B>, what: &Awaited) -> Result<Option<String>, StepError> {
    match what {
        Awaited::Gone(target) => {
            let target = match run.target(target).await {
                Ok(target) => target,
                Err(StepError::Failed(_) | StepError::Api(Error::Unknown(_))) => return Ok(None),
                Err(e) => return Err(e),
            };
            let path = target.url(None);
            let (code, _) = run.api.send(Call::new(Method::GET, &path).tolerate(&[404])).await?;
            Ok((code != 404).then(|| "it is there".to_owned()))
        }
        Awaited::Count(count) => {
            let found = counted(run, count).await?;
            Ok((found != count.is).then(|| format!("{found}, not {}", count.is)))
        }
        Awaited::Event { reason, at_least } => {
            let events = snapshot::raw_events(run).await?;
            let found = events.iter().filter(|event| event["reason"] == **reason).count();
            Ok((found < *at_least).then(|| format!("{found} events")))
        }
        Awaited::Condition { target, condition, reason } => {
            let object = run.api.get(&run.target(target).await?.url(None)).await?;
            let (kind, status) = condition.split_once('=').unwrap_or((condition, "True"));
            let found = items(&object["status"]["conditions"]).iter().find(|c| c["type"] == kind);
            let fits = found.is_some_and(|c| {
                c["status"] == status && reason.as_ref().is_none_or(|reason| text(&c["reason"]) == reason)
            });
            Ok((!fits).then(|| found.map_or("no such condition".to_owned(), Value::to_string)))
        }
        Awaited::Path { target, path, value, generation } => {
            let object = run.api.get(&run.target(target).await?.url(None)).await?;
            let Some(path) = path else { return Ok(None) };
            let found = dig(&object, path);
            let fits = match value {
                Wanted::Not(unwanted) => found != run.fill(unwanted),
                Wanted::Is(_) if *generation && is_outdated(&object) => {
                    return Ok(Some("an old generation".to_owned()));
                }
                Wanted::Is(wanted) => {
                    let wanted = run.fill(wanted);
                    // An absent number is zero.
                    found == wanted || wanted == 0 && found.is_null()
                }
            };
            Ok((!fits).then(|| found.to_string()))
        }
    }
}

fn is_outdated(object: &Value) -> bool {
    object["status"]["observedGeneration"] != object["metadata"]["generation"]
}

async fn counted<B: Backend>(run: &Run<'_, B>, count: &Count) -> Result<usize, StepError> {
    let filled = run.filled(&count.resource);
    let (namespace, resource) = filled.split_once(':').unwrap_or((&run.stage.namespace, &filled));
    let found = run.api.list_named(resource, Some(namespace), count.select.as_deref()).await?;
    let is_ready = |object: &Value| {
        let mut conditions = items(&object["status"]["conditions"]).iter();
        conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let fits = |object: &&Value| {
        let deleting = object["metadata"]["deletionTimestamp"].is_string();
        let alive = match count.terminating {
            Terminating::Any => true,
            Terminating::No => !deleting,
            Terminating::Only => deleting,
        };
        let in_phase = count.phase.as_ref().is_none_or(|phase| text(&object["status"]["phase"]) == phase);
        alive && in_phase && count.ready.is_none_or(|ready| is_ready(object) == ready)
    };
    Ok(found.iter().filter(fits).count())
}
