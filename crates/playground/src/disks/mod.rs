//! Simulated disks: a storage driver that provisions volumes for claims, attaches, expands and deletes them. It has a
//! default StorageClass, so that a claim without a class gets a volume.

mod plan;
mod sync;
#[cfg(test)]
mod tests;

pub use sync::{register, run};
