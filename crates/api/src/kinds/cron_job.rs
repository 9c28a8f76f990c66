//! CronJobs.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::de::null_default;
use crate::object_reference::ObjectReference;
use crate::{ObjectMeta, RawJson, Timestamp, WithRaw, resource, time};

/// A batch/v1 CronJob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJob {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<CronJobSpec>,
    pub status: CronJobStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobSpec {
    pub schedule: SmolStr,
    pub time_zone: Option<SmolStr>,
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    pub concurrency_policy: SmolStr,
    pub suspend: Option<bool>,
    pub job_template: WithRaw<JobTemplate>,
    pub successful_jobs_history_limit: Option<i32>,
    pub failed_jobs_history_limit: Option<i32>,
}

/// The parts of a Job template that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobTemplate {
    /// Labels and annotations of new Jobs.
    pub metadata: ObjectMeta,
    /// The spec of new Jobs, as served.
    pub spec: RawJson,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Timestamp>,
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Timestamp>,
}

resource!(CronJob, "batch", "v1", "cronjobs", "CronJob", namespaced);
