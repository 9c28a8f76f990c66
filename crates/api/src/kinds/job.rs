//! Jobs.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::{self, Condition};
use crate::de::{null_default, skip};
use crate::{HasTemplate, LabelSelector, ObjectMeta, PodTemplate, Templated, Timestamp, Uid, resource, time};

/// The condition of a Job that has succeeded.
pub const COMPLETE: &str = "Complete";
/// The condition of a Job that has failed.
pub const FAILED: &str = "Failed";
/// The condition of a suspended Job.
pub const SUSPENDED: &str = "Suspended";
/// The condition of a Job that has failed and whose pods are still terminating.
pub const FAILURE_TARGET: &str = "FailureTarget";
/// The condition of a Job that has succeeded and whose pods are still terminating.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

/// A batch/v1 Job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Job {
    pub metadata: ObjectMeta,
    pub spec: Templated<JobSpec>,
    pub status: JobStatus,
}

impl Job {
    /// The Complete or Failed condition.
    pub fn end(&self) -> Option<&Condition> {
        let ends = |condition: &&Condition| condition.type_ == COMPLETE || condition.type_ == FAILED;
        self.status.conditions.iter().filter(ends).find(|condition| condition.is_true())
    }

    /// Whether it is complete or has failed.
    pub fn is_finished(&self) -> bool {
        self.end().is_some()
    }

    /// Whether it is complete.
    pub fn has_succeeded(&self) -> bool {
        condition::is_true(&self.status.conditions, COMPLETE)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// How many pods at once.
    pub parallelism: Option<i32>,
    pub completions: Option<i32>,
    pub active_deadline_seconds: Option<i64>,
    pub pod_failure_policy: Option<PodFailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    pub backoff_limit: Option<i32>,
    pub backoff_limit_per_index: Option<i32>,
    pub max_failed_indexes: Option<i32>,
    pub selector: Option<LabelSelector>,
    pub manual_selector: Option<bool>,
    pub template: PodTemplate,
    /// How long it is kept once finished.
    pub ttl_seconds_after_finished: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<SmolStr>,
    pub suspend: Option<bool>,
    /// `TerminatingOrFailed` or `Failed`.
    pub pod_replacement_policy: Option<SmolStr>,
    pub managed_by: Option<SmolStr>,
}

impl JobSpec {
    /// Whether each pod has an index of its own.
    pub fn is_indexed(&self) -> bool {
        self.completion_mode.as_deref() == Some("Indexed")
    }

    /// Whether it is suspended.
    pub fn is_suspended(&self) -> bool {
        self.suspend == Some(true)
    }
}

/// The pod failure policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicy {
    /// The first that matches is used.
    #[serde(deserialize_with = "null_default")]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// A rule of the pod failure policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicyRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<OnExitCodes>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub on_pod_conditions: Vec<OnPodCondition>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnExitCodes {
    /// The container; any when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<SmolStr>,
    /// `In` or `NotIn`.
    pub operator: SmolStr,
    #[serde(deserialize_with = "null_default")]
    pub values: Vec<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnPodCondition {
    #[serde(rename = "type")]
    pub type_: SmolStr,
    /// The status it must have; `True` when empty.
    pub status: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// The first that is met is used.
    #[serde(deserialize_with = "null_default")]
    pub rules: Vec<SuccessPolicyRule>,
}

/// A rule of the success policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicyRule {
    /// These indexes have succeeded, such as `0,3-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_indexes: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_count: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "skip::zero")]
    pub active: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub succeeded: i32,
    #[serde(skip_serializing_if = "skip::zero")]
    pub failed: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Indexes that succeeded, such as `0,3-5`.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub completed_indexes: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<SmolStr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

/// Finished pods that are not in the counters yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UncountedTerminatedPods {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<Uid>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Uid>,
}

impl HasTemplate for JobSpec {
    fn template(&self) -> &PodTemplate {
        &self.template
    }
}

resource!(Job, "batch", "v1", "jobs", "Job", namespaced);
