//! What a controller is, as data: the one table of controllers is made of these.

use std::sync::Arc;

use crate::context::Context;
use crate::tasks::Tasks;

/// Why a controller cannot run. It stays off, the others go on, and the health check says so.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings are missing or make no sense; the text says which and what would be right.
    #[error("{0}")]
    Misconfigured(String),
    /// By its settings or the server's abilities there is nothing to do for it; the text says why.
    #[error("{0}")]
    NotNeeded(String),
}

/// Sets a controller up: takes its caches, declares its triggers, and leaves its workers in `Tasks`. Called
/// again after a panic, so whatever it holds is made anew.
pub type Start = fn(Arc<Context>, &mut Tasks) -> Result<(), StartError>;
