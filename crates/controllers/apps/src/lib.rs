//! Controllers of the `apps` family, and ReplicationController, which shares its core with ReplicaSet.

pub mod daemonset;
pub mod deployment;
pub mod replicaset;
pub mod replicationcontroller;
pub mod statefulset;
