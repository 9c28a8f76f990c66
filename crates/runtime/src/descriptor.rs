//! How a controller is started.

use std::sync::Arc;

use crate::context::Context;
use crate::tasks::Tasks;

/// Why a controller cannot run. The other controllers are not affected.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings are missing or invalid; the text says which, and what is valid. The health check fails.
    #[error("{0}")]
    Misconfigured(String),
    /// It has nothing to do with these settings or this server; the text says why.
    #[error("{0}")]
    NotNeeded(String),
}

/// Sets up a controller: gets its caches, and declares its triggers and workers in `Tasks`. Called again after a panic.
pub type Start = fn(Arc<Context>, &mut Tasks) -> Result<(), StartError>;
