//! What a cloud may answer instead of doing what it was asked.

use std::time::Duration;

/// Why a cloud did not do what it was asked. Some answers have a meaning of their own to controllers; everything else
/// is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// There is no such machine. To [`Instances::exists`](super::Instances::exists) that is no answer but a failure:
    /// no Node goes for it.
    #[error("instance not found")]
    InstanceNotFound,
    /// This cloud cannot do that.
    #[error("unimplemented")]
    NotImplemented,
    /// Somebody else does that, so nothing is to be done here. A good answer to ensuring or updating a load balancer;
    /// not to deleting one, as what was made here would never go.
    #[error("implemented by alternate to cloud provider")]
    ImplementedElsewhere,
    /// Not yet: ask again after a fixed time rather than ever more rarely.
    #[error("{message}")]
    RetryAfter {
        /// What is being waited for.
        message: String,
        after: Duration,
    },
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl CloudError {
    /// A failure; takes a text or any error.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// How long to wait before the next attempt, if the cloud said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RetryAfter { after, .. } => Some(*after),
            _ => None,
        }
    }
}
