//! Whether a Job has ended, how, and why. Pure.

use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::condition::{self, Condition};
use flyball_api::job::{COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use flyball_api::pod::{Phase, Pod, RestartPolicy};
use flyball_api::time::{self, SignedDuration};
use smol_str::SmolStr;

use super::failure_policy::Meaning;
use super::success_policy;
use super::tally::Tally;
use super::view::{Features, View, number};

/// The default of the API server.
const DEFAULT_BACKOFF_LIMIT: i32 = 6;

/// The reason when all completions are reached.
const COMPLETIONS_REACHED: &str = "CompletionsReached";
/// The reason when the failure policy fails the Job.
const FAILURE_POLICY: &str = "PodFailurePolicy";
/// The reason when the success policy is met.
const SUCCESS_POLICY: &str = "SuccessPolicy";

/// Whether a Job that has ended succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Succeeded,
    Failed,
}

/// The end of a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub verdict: Verdict,
    /// The reason of its conditions.
    pub reason: SmolStr,
    /// The message of its conditions.
    pub message: SmolStr,
    /// Whether the status does not show it yet.
    pub is_news: bool,
}

impl End {
    fn new(verdict: Verdict, reason: &'static str, message: impl Into<SmolStr>) -> Self {
        Self { verdict, reason: SmolStr::new_static(reason), message: message.into(), is_news: true }
    }

    fn known(verdict: Verdict, condition: &Condition) -> Self {
        let Condition { reason, message, .. } = condition.clone();
        Self { verdict, reason, message, is_news: false }
    }

    /// Whether pods that are deleted because of it do not count as failed: those of a Job that succeeded early.
    pub fn spares_the_stopped(&self) -> bool {
        self.verdict == Verdict::Succeeded && self.reason != COMPLETIONS_REACHED
    }

    /// The condition while pods are still terminating.
    pub fn interim(&self) -> &'static str {
        match self.verdict {
            Verdict::Succeeded => SUCCESS_CRITERIA_MET,
            Verdict::Failed => FAILURE_TARGET,
        }
    }

    /// Whether a condition announces the end before all pods are counted.
    pub fn has_interim(&self, features: Features) -> bool {
        features.delays_end() || [FAILURE_POLICY, SUCCESS_POLICY].contains(&self.reason.as_str())
    }

    /// The condition once all pods have ended.
    pub fn terminal(&self) -> &'static str {
        match self.verdict {
            Verdict::Succeeded => COMPLETE,
            Verdict::Failed => FAILED,
        }
    }
}

/// The end for any reason but reaching all completions. An earlier decision is final; otherwise failures are checked before
/// successes.
pub fn verdict(view: &View<'_>, tally: &Tally<'_>) -> Option<End> {
    decided(view)
        .or_else(|| by_failure_policy(view))
        .or_else(|| by_backoff_limit(view, tally))
        .or_else(|| by_deadline(view))
        .or_else(|| by_indexes(view, tally))
        .or_else(|| by_success_policy(view, tally))
}

/// The end by completions, once no pod is active. A Job without `completions` is complete when one pod has succeeded and the
/// others have ended.
pub fn completed(view: &View<'_>, tally: &Tally<'_>, active: i32) -> Option<End> {
    let wanted = view.job.spec.completions.unwrap_or(1);
    (tally.succeeded >= wanted && active == 0).then(|| {
        End::new(Verdict::Succeeded, COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
    })
}

/// The start time; now for a new Job, unless it is suspended.
pub fn started(view: &View<'_>) -> Option<Timestamp> {
    let begins_now = || (!view.job.spec.is_suspended()).then(|| time::truncate(view.now));
    view.job.status.start_time.or_else(begins_now)
}

/// The time until the deadline; `None` without one, and while the Job is suspended.
pub fn time_to_deadline(view: &View<'_>) -> Option<Duration> {
    let deadline = SignedDuration::from_secs(view.job.spec.active_deadline_seconds?);
    if view.job.spec.is_suspended() {
        return None;
    }
    let passed = view.now.duration_since(started(view)?);
    Some(Duration::try_from(deadline.saturating_sub(passed)).unwrap_or_default())
}

fn decided(view: &View<'_>) -> Option<End> {
    let known = |type_: &str| condition::find(&view.job.status.conditions, type_).filter(|c| c.is_true());
    known(SUCCESS_CRITERIA_MET)
        .map(|condition| End::known(Verdict::Succeeded, condition))
        .or_else(|| known(FAILURE_TARGET).map(|condition| End::known(Verdict::Failed, condition)))
}

fn by_failure_policy(view: &View<'_>) -> Option<End> {
    view.job.spec.pod_failure_policy.as_ref()?;
    let message = view.pods.iter().filter(|pod| view.is_failed(pod)).find_map(|pod| {
        if let Meaning::FailsJob(message) = view.meaning(pod) { Some(message) } else { None }
    })?;
    Some(End::new(Verdict::Failed, FAILURE_POLICY, message))
}

fn by_backoff_limit(view: &View<'_>, tally: &Tally<'_>) -> Option<End> {
    let limit = view.job.spec.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT);
    (tally.failed > limit || too_many_restarts(view, limit)).then(|| {
        End::new(Verdict::Failed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    })
}

/// With `restartPolicy: OnFailure`, restarts of containers count as failures.
fn too_many_restarts(view: &View<'_>, limit: i32) -> bool {
    if view.job.spec.template.spec.restart_policy != RestartPolicy::OnFailure {
        return false;
    }
    let restarts = |pod: &Pod| {
        let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
        statuses.map(|status| i64::from(status.restart_count)).sum::<i64>()
    };
    let living = |pod: &&Pod| matches!(pod.status.phase, Phase::Running | Phase::Pending);
    let total: i64 = view.pods.iter().map(|pod| &**pod).filter(living).map(restarts).sum();
    // A limit of n allows n - 1 restarts, but a limit of zero allows none.
    total >= i64::from(limit.max(1))
}

fn by_deadline(view: &View<'_>) -> Option<End> {
    time_to_deadline(view).filter(Duration::is_zero).map(|_| {
        End::new(Verdict::Failed, "DeadlineExceeded", "Job was active longer than specified deadline")
    })
}

fn by_indexes(view: &View<'_>, tally: &Tally<'_>) -> Option<End> {
    let indexes = tally.indexes.as_ref()?;
    let failed = indexes.failed.as_ref()?.total();
    if view.job.spec.max_failed_indexes.is_some_and(|most| number(failed) > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(End::new(Verdict::Failed, "MaxFailedIndexesExceeded", message));
    }
    let all_done = failed + indexes.succeeded.total() >= view.completions() as usize;
    (failed > 0 && all_done).then(|| End::new(Verdict::Failed, "FailedIndexes", "Job has failed indexes"))
}

fn by_success_policy(view: &View<'_>, tally: &Tally<'_>) -> Option<End> {
    let policy = view.job.spec.success_policy.as_ref();
    let message = success_policy::met(policy, &tally.indexes.as_ref()?.succeeded, view.completions())?;
    Some(End::new(Verdict::Succeeded, SUCCESS_POLICY, message))
}
