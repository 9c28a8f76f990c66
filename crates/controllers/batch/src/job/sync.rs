//! The shell: look up, claim, plan, execute, then tell and count in the order that survives a crash.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::job::JobStatus;
use flyball_api::pod::Pod;
use flyball_api::{Job, Key, ObjectMeta, Resource, Selector, Uid, status_manifest};
use flyball_cache::Informer;
use flyball_common::claim::{claim, controller_reference};
use flyball_common::gather::gather;
use flyball_common::index::owned_or_orphaned;
use flyball_common::pods::{self, PodError};
use flyball_common::slow_start::slow_start;
use flyball_runtime::events::{EventType, ObjectRef};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::backoff::Backoff;
use super::orphans::release;
use super::plan::{NewPod, Step, plan};
use super::status::{Outcome, Report, Switch, conclude, report, settle, still_tracked};
use super::tally::Tally;
use super::verdict::{self, End, completed, time_to_deadline, verdict};
use super::view::{TRACKING_FINALIZER, View, in_order, number};
use super::{BATCH_PERIOD, managed_elsewhere, metrics, template};

/// The controller of Jobs.
pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) jobs: Arc<Informer<Job>>,
    pub(super) pods: Arc<Informer<Pod>>,
    /// Failures in a row by Job, while it runs.
    pub(super) backoffs: Mutex<FxHashMap<Key, Backoff>>,
}

/// A Job in hand, with what its events are about.
struct Case<'a> {
    job: &'a Job,
    key: Key,
    about: ObjectRef,
}

/// What a step has come to, and what went wrong in it.
struct Done {
    outcome: Outcome,
    failure: Option<SyncError>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let job = self.jobs.store().get(key).filter(|job| !job.is_finished());
        let Some(job) = job.filter(|job| managed_elsewhere(job).is_none()) else {
            self.backoffs.lock().remove(key);
            return Ok(Next::Settled);
        };
        let case = Case { about: ObjectRef::of(&*job), key: key.clone(), job: &job };
        if !matches!(job.spec.completion_mode.as_deref(), None | Some("NonIndexed" | "Indexed")) {
            let message = "Skipped Job sync because completion mode is unknown";
            self.cx.events.warning(&case.about, "UnknownCompletionMode", message);
            return Ok(Next::Settled);
        }
        let began = self.cx.clock.now();
        let mut action = "reconciling";
        let result = self.reconcile(&case, &mut action).await;
        let took = Duration::try_from(self.cx.clock.now().duration_since(began)).unwrap_or_default();
        metrics::synced(&self.cx.metrics, &job, action, took, result.is_err());
        result
    }
}

impl Controller {
    async fn reconcile(&self, case: &Case<'_>, action: &mut &'static str) -> Result<Next, SyncError> {
        let pods = self.claimed(case).await?;
        let view = View {
            job: case.job,
            pods: &pods,
            backoff: self.backoffs.lock().get(&case.key).copied().unwrap_or_default(),
            suspension_clears_start: self.cx.gates.enabled("MutableSchedulingDirectivesForSuspendedJobs"),
            now: self.cx.clock.now(),
        };
        let tally = Tally::of(&view);
        let mut end = verdict(&view, &tally);
        let step = plan(&view, &tally, end.as_ref());
        *action = step.name(&view);
        let done = self.execute(case, &view, &tally, &step, end.as_ref()).await;
        match end {
            // Pods that could not be deleted are not counted yet.
            Some(_) if done.failure.is_some() => end = None,
            Some(_) => {}
            None => end = completed(&view, &tally, done.outcome.active),
        }
        let may_switch = end.is_none() && !matches!(step, Step::Stop(_)) && !case.job.metadata.is_deleting();
        let report = report(&view, &tally, done.outcome, end.as_ref(), may_switch);
        self.tell_and_count(case, &view, tally.backoff, report, end.as_ref()).await?;
        match done.failure {
            Some(failure) => Err(failure),
            None => Ok(next(&view, &step, end.as_ref())),
        }
    }

    /// The Job's own pods.
    async fn claimed(&self, case: &Case<'_>) -> Result<Vec<Arc<Pod>>, SyncError> {
        let selector = Selector::from_object(case.job.spec.selector.as_ref()).map_err(|error| {
            SyncError::other(format!("reading the selector of {}", case.key), error).never()
        })?;
        let uid = &case.job.metadata.uid;
        let candidates = owned_or_orphaned(self.pods.store(), &case.key.namespace, uid);
        claim(&self.cx, case.job, &selector, candidates, &[TRACKING_FINALIZER]).await.map(in_order)
    }

    async fn execute<'a>(
        &self,
        case: &Case<'_>,
        view: &View<'a>,
        tally: &Tally<'a>,
        step: &Step<'a>,
        end: Option<&End>,
    ) -> Done {
        let outcome = Outcome {
            active: number(tally.active.len()),
            ready: tally.ready,
            terminating: tally.terminating,
        };
        let why = step.why(view, tally, end);
        match step {
            Step::Nothing | Step::Wait(_) => Done { outcome, failure: None },
            Step::Stop(pods) => {
                let deleted = pods.iter().map(|pod| self.delete(case, pod, &why));
                removed(outcome, pods, gather(deleted).await)
            }
            Step::Discard(pods) => {
                let discarded = pods.iter().map(|pod| self.discard(case, view, pod, &why));
                removed(outcome, pods, gather(discarded).await)
            }
            Step::Create(new) => self.create(case, tally, outcome, new, &why).await,
        }
    }

    async fn delete(&self, case: &Case<'_>, pod: &Pod, why: &str) -> Result<(), SyncError> {
        let deleted = pods::delete(&self.cx, &self.cx.events, &case.key, &case.about, pod, why).await;
        deleted.map_err(|failure| failed(&case.key, failure))
    }

    /// Deletes a pod so that it does not count: its finalizer goes first, also one that came with adoption just now.
    async fn discard(&self, case: &Case<'_>, view: &View<'_>, pod: &Pod, why: &str) -> Result<(), SyncError> {
        if view.is_tracked(pod) {
            release(&self.cx, &case.key, pod, why).await?;
        }
        self.delete(case, pod, why).await
    }

    async fn create(
        &self,
        case: &Case<'_>,
        tally: &Tally<'_>,
        outcome: Outcome,
        new: &[NewPod],
        why: &str,
    ) -> Done {
        let common = template::common(case.job, &controller_reference(case.job));
        let make = |n: usize| {
            let body = new.get(n).map(|new| template::pod(case.job, &common, new)).unwrap_or_default();
            async move {
                let made = pods::create(&self.cx, &self.cx.events, &case.key, &case.about, &body, why).await;
                match made {
                    Err(PodError::Create(error)) if pods::is_namespace_going(&error) => Ok(()),
                    other => other.map(drop),
                }
            }
        };
        let progress = slow_start(new.len(), make).await;
        let refused = usize::from(progress.failure.is_some());
        metrics::created(&self.cx.metrics, case.job, tally, progress.done, refused);
        Done {
            outcome: Outcome { active: outcome.active + number(progress.done), ..outcome },
            failure: progress.failure.map(|failure| failed(&case.key, failure)),
        }
    }

    /// Writes the status, frees the pods it counts, and writes what follows from that. In this order a crash at
    /// any point leaves every pod either with its finalizer or with its uid in the status.
    async fn tell_and_count(
        &self,
        case: &Case<'_>,
        view: &View<'_>,
        backoff: Backoff,
        report: Report<'_>,
        end: Option<&End>,
    ) -> Result<(), SyncError> {
        let mut written = None;
        if report.status != case.job.status {
            let Some(metadata) =
                self.write_status(case, &case.job.metadata, &case.job.status, &report.status).await?
            else {
                return Ok(());
            };
            written = Some(metadata);
            self.backoffs.lock().insert(case.key.clone(), backoff);
            self.tell_switch(case, report.switched);
        }
        metrics::handled(&self.cx.metrics, &report);

        let freed = self.free(case, &report.release).await;
        let mut tracked: FxHashSet<&Uid> = still_tracked(view);
        for (pod, _) in report.release.iter().zip(&freed).filter(|(_, freed)| freed.is_ok()) {
            tracked.remove(&pod.metadata.uid);
        }
        let mut status = report.status.clone();
        let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        settle(&mut status, &mut uncounted, |uid| tracked.contains(uid));
        status.uncounted_terminated_pods = Some(uncounted);
        let failure = freed.into_iter().find_map(Result::err);
        let over = match end {
            Some(end) if failure.is_none() && !report.is_capped => {
                conclude(&mut status, end, view.now).then_some(end)
            }
            _ => None,
        };
        if status != report.status {
            let latest = written.as_ref().unwrap_or(&case.job.metadata);
            let wrote = self.write_status(case, latest, &report.status, &status).await?;
            if let (Some(end), Some(_)) = (over, wrote) {
                self.tell_end(case, end, &status);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn free(&self, case: &Case<'_>, pods: &[&Pod]) -> Vec<Result<(), SyncError>> {
        let why = "it has ended and is in the Job's status";
        gather(pods.iter().map(|pod| release(&self.cx, &case.key, pod, why))).await
    }

    /// Writes a status over the version that was read last; `None` when the Job is gone.
    async fn write_status(
        &self,
        case: &Case<'_>,
        latest: &ObjectMeta,
        before: &JobStatus,
        status: &JobStatus,
    ) -> Result<Option<ObjectMeta>, SyncError> {
        let JobStatus { active, succeeded, failed, .. } = status;
        let why = format!("{active} pods active, {succeeded} succeeded, {failed} failed");
        let body = status_manifest(&Job::TYPE, latest, status);
        match self.cx.writer(&case.key).update_status::<Job>(&case.key, &body, why).await {
            Ok(job) => {
                metrics::counted(&self.cx.metrics, case.job, before, status);
                Ok(Some(job.metadata))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(SyncError::api(format!("writing the status of {}", case.key))(error)),
        }
    }

    fn tell_switch(&self, case: &Case<'_>, switched: Option<Switch>) {
        match switched {
            Some(Switch::Suspended) => self.cx.events.normal(&case.about, "Suspended", "Job suspended"),
            Some(Switch::Resumed) => self.cx.events.normal(&case.about, "Resumed", "Job resumed"),
            None => {}
        }
    }

    fn tell_end(&self, case: &Case<'_>, end: &End, status: &JobStatus) {
        let (events, about) = (&self.cx.events, &case.about);
        match end.result {
            verdict::Result::Success => {
                if case.job.spec.completions.is_some_and(|wanted| status.succeeded > wanted) {
                    let message = "Too many succeeded pods running after completion count reached";
                    events.warning(about, "TooManySucceededPods", message);
                }
                events.normal(about, "Completed", "Job completed");
            }
            verdict::Result::Failure => {
                let (reason, message) = (end.reason.clone(), end.message.to_string());
                events.record(about, EventType::Warning, reason, message, vec![]);
            }
        }
        metrics::finished(&self.cx.metrics, case.job, end);
        self.backoffs.lock().remove(&case.key);
    }
}

/// The numbers after pods were deleted.
fn removed(before: Outcome, pods: &[&Pod], results: Vec<Result<(), SyncError>>) -> Done {
    let gone: Vec<_> = pods.iter().zip(&results).filter(|(_, result)| result.is_ok()).collect();
    let ready = gone.iter().filter(|(pod, _)| pod.is_ready()).count();
    let outcome = Outcome {
        active: before.active - number(gone.len()),
        ready: before.ready - number(ready),
        terminating: before.terminating + number(gone.len()),
    };
    Done { outcome, failure: results.into_iter().find_map(Result::err) }
}

/// When to look again without being asked: when a pod may be replaced, or when the deadline passes.
fn next(view: &View<'_>, step: &Step<'_>, end: Option<&End>) -> Next {
    let replacement = if let Step::Wait(wait) = step { Some((*wait).max(BATCH_PERIOD)) } else { None };
    let deadline = if end.is_none() { time_to_deadline(view) } else { None };
    replacement.into_iter().chain(deadline).min().map_or(Next::Settled, Next::After)
}

fn failed(key: &Key, failure: PodError) -> SyncError {
    let doing = format!("bringing {key} to its number of pods");
    match failure {
        PodError::Create(error) | PodError::Delete(error) => SyncError::api(doing)(error),
        other => SyncError::other(doing, other),
    }
}
