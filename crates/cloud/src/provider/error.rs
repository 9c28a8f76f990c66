//! The errors of a cloud.

use std::time::Duration;

use flyball_outbound::HttpError;
use flyball_runtime::Chain;

/// Why a call to a cloud failed. Controllers treat some of these specially; everything else is retried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// There is no such machine. For [`Instances::exists`](super::Instances::exists) this is a failure: the Node is not
    /// deleted.
    #[error("instance not found")]
    InstanceNotFound,
    /// This cloud does not support the call.
    #[error("unimplemented")]
    NotImplemented,
    /// Another component does this. Not a failure when a load balancer is ensured or updated. A cloud should not return
    /// it for a deletion, as load balancers that were created here would stay.
    #[error("implemented by alternate to cloud provider")]
    ImplementedElsewhere,
    /// Not yet: retry after this time, not with backoff.
    #[error("{message}")]
    RetryAfter {
        /// What the cloud is waiting for.
        message: String,
        after: Duration,
    },
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// A server that wants to be left alone is left alone.
impl From<HttpError> for CloudError {
    fn from(error: HttpError) -> Self {
        match error.retry_after {
            Some(after) => Self::RetryAfter { message: Chain(&error).to_string(), after },
            None => Self::failed(error),
        }
    }
}

impl CloudError {
    /// A failure; takes a text or any error.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// The delay before the next attempt that the cloud has requested.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RetryAfter { after, .. } => Some(*after),
            _ => None,
        }
    }
}
