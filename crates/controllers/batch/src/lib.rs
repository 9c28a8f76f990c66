//! Controllers of the `batch` family: Jobs, the CronJobs that start them, and the removal of old ones.

pub mod job;
