//! Golden scenarios: what happens in a cluster, and what kube-controller-manager v1.36.4 did.
//!
//! A scenario (`tests/golden/scenarios/*.yaml`) is a list of steps; the results of its `snapshot` steps are compared
//! with a recording (`tests/golden/expected/*.json`). In reading order: [`scenario`] is the vocabulary, [`run`]
//! performs it on a [`backend`], [`normalise`] makes two runs comparable, [`compare`] judges, [`report`] explains,
//! [`suite`] runs many.

pub mod backend;
mod cleanup;
pub mod clock;
pub mod compare;
mod dig;
pub mod embedded;
mod encodings;
pub mod expected;
mod kubelet;
pub mod normalise;
mod permitted;
mod pod_action;
pub mod real;
mod renumber;
pub mod report;
pub mod run;
pub mod scenario;
mod snapshot;
mod stage;
mod steps;
pub mod suite;
mod text;
mod tokens;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use pod_action::{PodAction, next_action};
pub(crate) use stage::Stage;

/// Why a step of a scenario failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server refused a request or was unavailable.
    #[error(transparent)]
    Api(#[from] crate::api::Error),
    /// A condition that the step waited for or relied on does not hold.
    #[error("{0}")]
    Failed(String),
}

impl StepError {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The whole chain of causes in one line.
    pub fn chain(&self) -> String {
        flyball_client::Chain(self).to_string()
    }
}
