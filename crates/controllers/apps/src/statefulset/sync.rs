//! The shell: look up, claim, find the revisions, plan, execute, write the status, trim the history.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::stateful_set::StatefulSetStatus;
use flyball_api::{
    ControllerRevision, Key, Object, PersistentVolumeClaim, Selector, StatefulSet, manifest_with_status,
};
use flyball_cache::Informer;
use flyball_common::claim::{claim, claim_where};
use flyball_common::index::owned_or_orphaned;
use flyball_common::slow_start::slow_start;
use flyball_common::{pods, revisions};
use flyball_runtime::events::Recorder;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::control::{Control, existing_claims};
use super::history::{self, obsolete};
use super::identity::is_member;
use super::metrics;
use super::plan::{Action, BURST, Plan, Why, plan};
use super::status::{is_news, status};
use super::view::{View, ordinals_in_play};

/// The controller.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) sets: Arc<Informer<StatefulSet>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) claims: Arc<Informer<PersistentVolumeClaim>>,
    pub(super) revisions: Arc<Informer<ControllerRevision>>,
    pub(super) obeys_max_unavailable: bool,
    pub(super) by_meaning: bool,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(set) = self.sets.store().get(key) else { return Ok(Next::Settled) };
        let selector = Selector::from_object(set.spec.selector.as_ref())
            .map_err(|error| SyncError::other(format!("reading the selector of {key}"), error).never())?;
        let history = self.history(&set, &selector).await?;
        let candidates = owned_or_orphaned(self.pods.store(), &key.namespace, set.uid());
        let matches = |pod: &Pod| selector.matches(&pod.metadata.labels) && is_member(&set, pod);
        let pods = claim_where(&self.cx, &*set, matches, candidates, &[]).await?;
        let found = history::of_template(&self.cx, &set, &history, self.by_meaning).await?;

        let claims = existing_claims(&set, ordinals_in_play(&set, &pods, BURST), self.claims.store());
        let view = View {
            set: &set,
            pods: &pods,
            claims: &claims,
            current: &found.current.metadata.name,
            update: &found.update.metadata.name,
            obeys_max_unavailable: self.obeys_max_unavailable,
            now: self.cx.clock.now(),
        };
        let plan = plan(&view)
            .map_err(|error| SyncError::other(format!("reading maxUnavailable of {key}"), error).never())?;
        let control = Control {
            cx: &self.cx,
            events: &self.events,
            view: &view,
            key,
            current: &found.current,
            update: &found.update,
        };
        let (outdated, outcome) = execute(&control, &plan).await;
        let status = status(&view, found.collisions, outdated);
        let next = next(&view, &status);
        if self.obeys_max_unavailable {
            metrics::observe(&self.cx.metrics, &view);
        }
        let written = self.write_status(&set, &status).await;
        let trimmed = self.trim(&view, &history).await;
        outcome.and(written).and(trimmed).map(|()| next)
    }
}

impl Controller {
    /// The revisions of a set, from the oldest; those without an owner are adopted.
    async fn history(
        &self,
        set: &StatefulSet,
        selector: &Selector,
    ) -> Result<Vec<Arc<ControllerRevision>>, SyncError> {
        let all = owned_or_orphaned(self.revisions.store(), &set.metadata.namespace, set.uid());
        let matching = all.into_iter().filter(|revision| selector.matches(&revision.metadata.labels));
        let mut history = claim(&self.cx, set, selector, matching.collect(), &[]).await?;
        revisions::sort(&mut history);
        Ok(history)
    }

    /// Writes the status if it says anything new.
    async fn write_status(&self, set: &StatefulSet, status: &StatefulSetStatus) -> Result<(), SyncError> {
        if !is_news(set, status) {
            return Ok(());
        }
        let key = set.key();
        let StatefulSetStatus { replicas, ready_replicas: ready, updated_replicas: updated, .. } = status;
        let why = format!("{replicas} pods, {ready} ready, {updated} updated");
        let body = manifest_with_status(set, status);
        let written = self.cx.writer(&key).update_status::<StatefulSet>(&key, &body, why).await;
        match written {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop).map_err(SyncError::api(format!("writing the status of {key}"))),
        }
    }

    /// Deletes the revisions that exceed the limit.
    async fn trim(&self, view: &View<'_>, history: &[Arc<ControllerRevision>]) -> Result<(), SyncError> {
        let key = view.set.metadata.key();
        for revision in obsolete(view, history) {
            let why = "nothing runs it and newer ones fill the history";
            revisions::delete(&self.cx, &key, revision, why).await?;
        }
        Ok(())
    }
}

/// Carries a plan out, and says how many outdated pods it deleted. An ordered set takes one step at a time; a
/// parallel one takes the pods of a stage in growing batches.
async fn execute(control: &Control<'_>, plan: &Plan<'_>) -> (i32, Result<(), SyncError>) {
    if let Some((ordinal, until)) = plan.waiting {
        tracing::debug!(set = %control.key, ordinal, ?until, "waiting");
    }
    let mut outdated = 0;
    for stage in &plan.stages {
        if control.view.is_ordered() || stage.iter().flatten().any(is_update) {
            for actions in stage {
                if let Err(error) = steps(control, actions).await {
                    return (outdated, Err(error));
                }
                outdated += i32::from(actions.iter().any(is_update));
            }
        } else {
            let progress = slow_start(stage.len(), |at| steps(control, &stage[at])).await;
            if let Some(error) = progress.failure {
                return (outdated, Err(error));
            }
        }
    }
    (outdated, Ok(()))
}

/// Takes the steps of one pod; the first that fails is the last.
async fn steps(control: &Control<'_>, actions: &[Action<'_>]) -> Result<(), SyncError> {
    for action in actions {
        control.act(action).await?;
    }
    Ok(())
}

fn is_update(action: &Action<'_>) -> bool {
    matches!(action, Action::Delete { why: Why::Outdated, .. })
}

/// Pods that are ready but not yet for long enough become available without any further event.
fn next(view: &View<'_>, status: &StatefulSetStatus) -> Next {
    let patience = view.set.spec.min_ready_seconds;
    if patience <= 0 || status.ready_replicas == status.available_replicas {
        return Next::Settled;
    }
    let fallback = std::time::Duration::from_secs(u64::try_from(patience).unwrap_or(0));
    Next::After(pods::next_available(view.pods, patience, view.now).unwrap_or(fallback))
}
