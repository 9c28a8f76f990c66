//! Finds the version up to which the objects of a migration are rewritten.

pub mod plan;
mod sync;

pub(super) use sync::Checkpoints;
