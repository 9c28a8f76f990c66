//! The input of the decisions about a Job, and the predicates that they share. Pure.

use std::sync::Arc;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{Job, Timestamp};
use flyball_runtime::gates::{Gate, Gates};

use super::OURS;
use super::backoff::Backoff;
use super::failure_policy::{self, Meaning};

/// The finalizer that keeps a pod until it is counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an Indexed Job; an annotation and a label.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the failures of the index before the pod was created.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that the failure policy ignores.
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Everything that the decisions depend on, borrowed from one snapshot.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub job: &'a Job,
    /// The pods that it controls in the order of [`in_order`], with those adopted in this sync.
    pub pods: &'a [Arc<Pod>],
    /// Its failures in a row.
    pub backoff: Backoff,
    /// The PodGroup of new pods, if they are to be scheduled together.
    pub group: Option<&'a str>,
    pub features: Features,
    pub now: Timestamp,
}

/// Feature gates.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// A Job may name another controller (`JobManagedBy`).
    pub managed_by: bool,
    /// A Job may say when terminating pods are replaced, and its status counts them (`JobPodReplacementPolicy`).
    pub replacement_policy: bool,
    /// Suspending clears the start time, so that the scheduling directives can be changed
    /// (`MutableSchedulingDirectivesForSuspendedJobs`).
    pub suspension_clears_start: bool,
}

impl Features {
    pub fn of(gates: &Gates) -> Self {
        Self {
            managed_by: gates.enabled(Gate::JobManagedBy),
            replacement_policy: gates.enabled(Gate::JobPodReplacementPolicy),
            suspension_clears_start: gates.enabled(Gate::MutableSchedulingDirectivesForSuspendedJobs),
        }
    }

    /// Whether a Job ends only once all of its pods have ended.
    pub fn delays_end(self) -> bool {
        self.managed_by || self.replacement_policy
    }

    /// The other controller that manages the Job, if one does.
    pub fn managed_elsewhere(self, job: &Job) -> Option<&str> {
        job.spec.managed_by.as_deref().filter(|name| self.managed_by && *name != OURS)
    }
}

impl<'a> View<'a> {
    /// Whether the pod is not counted yet: it has the finalizer, or got it by adoption in this sync.
    pub fn is_tracked(&self, pod: &Pod) -> bool {
        has_finalizer(pod) || !pod.metadata.is_controlled_by(&self.job.metadata.uid)
    }

    /// Whether the pod has failed. A terminating pod counts as failed, unless pods are only replaced once they have ended.
    pub fn is_failed(&self, pod: &Pod) -> bool {
        match pod.status.phase {
            Phase::Failed => true,
            Phase::Succeeded => false,
            _ => pod.metadata.is_deleting() && !self.replaces_only_failed(),
        }
    }

    /// Whether a terminating pod is replaced only once it has ended.
    pub fn replaces_only_failed(&self) -> bool {
        let policy = self.job.spec.pod_replacement_policy.as_deref();
        self.features.replacement_policy && policy == Some("Failed")
            || self.job.spec.pod_failure_policy.is_some()
    }

    /// The effect of the failure of a pod.
    pub fn meaning(&self, pod: &Pod) -> Meaning {
        failure_policy::meaning(self.job.spec.pod_failure_policy.as_ref(), pod)
    }

    pub fn is_indexed(&self) -> bool {
        self.job.spec.is_indexed()
    }

    /// The number of indexes; zero for a Job without them.
    pub fn completions(&self) -> u32 {
        self.job.spec.completions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    /// The index of a pod, if it is below the number of completions.
    pub fn index(&self, pod: &Pod) -> Option<u32> {
        completion_index(pod).filter(|index| *index < self.completions())
    }

    /// Whether the pod can count: in an Indexed Job it needs a valid index.
    pub fn is_valid(&self, pod: &Pod) -> bool {
        !self.is_indexed() || self.index(pod).is_some()
    }

    /// `backoffLimitPerIndex`.
    pub fn limit_per_index(&self) -> Option<i32> {
        self.job.spec.backoff_limit_per_index.filter(|_| self.is_indexed())
    }

    /// The pods that have not ended and are not terminating.
    pub fn active(&self) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().map(|pod| &**pod).filter(|pod| pod.is_active())
    }
}

/// Whether a pod carries the tracking finalizer.
pub fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(TRACKING_FINALIZER)
}

/// The index in the annotation of a pod.
pub fn completion_index(pod: &Pod) -> Option<u32> {
    pod.metadata.annotations.get(COMPLETION_INDEX)?.parse().ok()
}

/// The failures of the index before the pod: counted, and ignored. An invalid annotation counts as zero.
pub fn earlier_failures(pod: &Pod) -> (i32, i32) {
    let count = |key: &str| {
        let text = pod.metadata.annotations.get(key);
        text.and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
    };
    (count(INDEX_FAILURES), count(INDEX_IGNORED_FAILURES))
}

/// Sorts pods by index, then by name, so that decisions are deterministic.
pub fn in_order(mut pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.sort_by_cached_key(|pod| (completion_index(pod), pod.metadata.name.clone()));
    pods
}

/// A length as the type of the API.
pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
