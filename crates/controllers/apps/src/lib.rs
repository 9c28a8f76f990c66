//! Controllers of the `apps` family, and ReplicationController, which shares its core with ReplicaSet.

<<<<<<< HEAD
pub mod deployment;
=======
pub mod daemonset;
>>>>>>> c5f5e6c (DaemonSets: a pod on every node that fits; node affinity in tables)
pub mod replicaset;
pub mod replicationcontroller;
pub mod statefulset;
