//! Golden scenarios: what happens in a cluster, and what kube-controller-manager v1.36.4 made of it.
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
mod duty;
pub mod embedded;
pub mod expected;
mod kubelet;
pub mod normalise;
mod permitted;
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

pub(crate) use duty::{Duty, duty};
pub(crate) use stage::Stage;

/// Why a step of a scenario could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The API server refused or was not there.
    #[error(transparent)]
    Api(#[from] crate::api::Error),
    /// What the step waited for or relied on is not so.
    #[error("{0}")]
    Failed(String),
}

impl StepError {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The whole chain of causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            text.push_str(": ");
            text.push_str(&next.to_string());
            cause = next.source();
        }
        text
    }
}
