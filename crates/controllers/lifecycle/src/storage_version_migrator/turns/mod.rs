//! Starts and stops the migrations of a resource, one turn at a time: the change of a status causes the next sync.

pub mod plan;
mod sync;

pub(super) use sync::Runner;
