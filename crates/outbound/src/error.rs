//! What goes wrong with a request.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;

use crate::credentials::SecretError;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request that has failed, after all attempts. Its text has the method and the address, and no secret.
#[derive(Debug, thiserror::Error)]
#[error("{request}")]
pub struct HttpError {
    pub(crate) request: String,
    #[source]
    pub problem: Problem,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("the server cannot be reached")]
    Unreachable(#[source] BoxError),
    #[error("the connection was closed before the response arrived")]
    Broken(#[source] BoxError),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// With the beginning of what the server has to say.
    #[error("the server answers {status}{}", if text.is_empty() { String::new() } else { format!(": {text}") })]
    Status { status: StatusCode, text: String },
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the response is not valid JSON of the expected form")]
    Unreadable(#[source] serde_json::Error),
    #[error("the request cannot be signed")]
    Unsigned(#[source] BoxError),
    #[error("the request cannot be written")]
    Unwritable(#[source] BoxError),
}

impl HttpError {
    /// The status that the server answered with, if it did and the status is an error.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.problem {
            Problem::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }
}

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{0:?} is not an address such as https://api.example.com/v1")]
    Address(String),
    #[error("cannot read the certificate authorities in {}", path.display())]
    UnreadableAuthorities {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}: there is no certificate in PEM that can be used", path.display())]
    NoAuthority { path: PathBuf },
    #[error(transparent)]
    Secret(#[from] SecretError),
}
