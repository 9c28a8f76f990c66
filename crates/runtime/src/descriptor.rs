//! How a controller is started.

use std::sync::Arc;

use crate::config::Config;
use crate::context::Context;
use crate::tasks::Tasks;

/// Why a controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings are missing or invalid; the text says which, and what is valid. A manager does not start with a controller
    /// whose [`Check`] finds this. If it is found later, the health check fails, and the other controllers are not affected.
    #[error("{0}")]
    Misconfigured(String),
    /// It has nothing to do with these settings or this server; the text says why.
    #[error("{0}")]
    NotNeeded(String),
}

/// Whether a controller can be set up with these settings, the contents of the files that they name included.
pub type Check = fn(&Config) -> Result<(), StartError>;

/// Sets up a controller: gets its caches, and declares its triggers and workers in `Tasks`. Called again after a panic.
pub type Start = fn(Arc<Context>, &mut Tasks) -> Result<(), StartError>;
