//! Rewrites the objects of a migration.

pub mod plan;
mod sync;

pub(super) use sync::Migrator;
