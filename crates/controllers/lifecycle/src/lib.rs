//! Controllers for the end of an object's life: garbage collection by owner references, the content of namespaces, pods
//! that no other component deletes, PodGroups, entries of API servers that are gone, and objects in old storage versions.

pub mod gc;
pub mod namespace;
pub mod podgc;
pub mod podgroup_protection;
pub mod storage_version_gc;
pub mod storage_version_migrator;
