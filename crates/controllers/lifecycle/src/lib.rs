//! Controllers that end things: what nobody owns any more, what a namespace takes with it, pods that are left over,
//! groups of pods that are done, what servers said that are gone, old versions in
//! storage.

pub mod gc;
pub mod namespace;
pub mod podgc;
pub mod podgroup_protection;
pub mod storage_version_gc;
pub mod storage_version_migrator;
