//! Controllers of the autoscaling family: how many replicas a workload should have.

pub mod horizontal;
