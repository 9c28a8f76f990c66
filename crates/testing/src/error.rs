//! Why something did not work, for people who read the output of a test.

use std::fmt::{self, Display as _};

use flyball_client::Chain;

/// An error. Its `Debug` form is its text with all causes, since that is what a test prints.
#[derive(thiserror::Error)]
pub enum Error {
    #[error("the cluster cannot start")]
    Start(#[source] flyball_playground::cluster::StartError),
    #[error("the thread of the cluster cannot start")]
    Thread(#[source] std::io::Error),
    /// It has stopped, or its thread has panicked.
    #[error("the cluster has stopped")]
    Stopped,
    #[error("a manifest cannot be read")]
    Manifest(#[source] serde_yaml::Error),
    #[error("{what} is no object of Kubernetes: it needs apiVersion, kind and metadata.name")]
    NoObject { what: String },
    #[error("the cluster has no kind {kind:?}; CustomResourceDefinitions come first")]
    UnknownKind { kind: String },
    #[error("{doing}")]
    Request {
        /// What was tried, with the object: `apply Pod default/web`.
        doing: String,
        #[source]
        source: flyball_client::Error,
    },
    #[error("cannot explain {kind} {name}: {why}")]
    Unexplained { kind: String, name: String, why: String },
    /// Something is written again and again.
    #[error("the cluster did not settle within {within:?} of its time; the last writes:\n{writes}")]
    Unsettled { within: std::time::Duration, writes: String },
    /// [`Cluster::until`](crate::Cluster::until) gave up.
    #[error(
        "{kind} {name} is not as the test expects, and nothing has changed for {patience:?}\n\n{why}\nThe object:\n{object}"
    )]
    Unmet { kind: String, name: String, patience: std::time::Duration, why: String, object: String },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Chain(self).fmt(f)
    }
}
