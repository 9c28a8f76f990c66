//! Controllers of the `batch` family: Jobs, the CronJobs that start them, and the removal of old ones.

pub mod cronjob;
pub mod job;
pub mod ttlafterfinished;
