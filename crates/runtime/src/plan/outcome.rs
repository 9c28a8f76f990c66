//! What came of a plan's effects, for controllers that have more to decide afterwards.

use flyball_api::ObjectMeta;
use flyball_client::{Error, Verb};

use super::write::Refusals;
use crate::error::{Retry, SyncError};

/// What came of the effects of a plan. Writes that were not begun, because something before them failed, are not in it.
#[derive(Debug)]
pub struct Outcome<T = ()> {
    /// The writes that were made, in the order of the plan.
    pub done: Vec<Done<T>>,
    /// The failures, in the order of the plan.
    pub failures: Vec<Failure<T>>,
}

/// A write that did not fail.
#[derive(Debug)]
pub struct Done<T> {
    /// What the plan noted with it.
    pub tag: T,
    pub answer: Answer,
}

/// The answer to a write that did not fail.
#[derive(Debug)]
pub enum Answer {
    /// It was done; the metadata of the object as the server has it now, where the server says so.
    Written(Option<Box<ObjectMeta>>),
    /// It was refused, which the plan accepts: the object is gone, say.
    Refused(Error),
}

#[derive(Debug)]
pub struct Failure<T = ()> {
    /// What the plan noted with the write; `None` if no write was made.
    pub tag: Option<T>,
    /// The verb of the write, if there was one.
    pub verb: Option<Verb>,
    /// What was attempted, such as `deleting Pod ns/a`.
    pub doing: String,
    /// The message for events and conditions.
    pub message: String,
    /// The server's answer, if it was asked.
    pub error: Option<Error>,
    /// Whether trying again can help.
    pub retry: Retry,
    /// Whether it is not worth a warning: something is merely not there yet.
    pub expected: bool,
}

impl<T> Default for Outcome<T> {
    fn default() -> Self {
        Self { done: vec![], failures: vec![] }
    }
}

impl<T> Outcome<T> {
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    pub fn failure(&self) -> Option<&Failure<T>> {
        self.failures.first()
    }

    /// What a sync returns: the first failure, if there is one.
    pub fn result(self) -> Result<(), SyncError> {
        self.failures.into_iter().next().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// The writes that were made, without those that were refused in a way that the plan accepts.
    pub fn written(&self) -> impl Iterator<Item = &Done<T>> {
        self.done.iter().filter(|done| matches!(done.answer, Answer::Written(_)))
    }

    /// The refusals that the plan accepts.
    pub fn refusals(&self) -> impl Iterator<Item = (&T, &Error)> {
        self.done.iter().filter_map(|done| match &done.answer {
            Answer::Refused(error) => Some((&done.tag, error)),
            Answer::Written(_) => None,
        })
    }

    /// The answer to the only write among the effects.
    ///
    /// # Errors
    /// It failed.
    pub fn answer(mut self) -> Result<Answer, SyncError> {
        let answer = self.done.pop().map_or(Answer::Written(None), |done| done.answer);
        self.result().map(|()| answer)
    }

    pub(super) fn done(tag: T, answer: Answer) -> Self {
        Self { done: vec![Done { tag, answer }], failures: vec![] }
    }

    pub(super) fn failed(failure: Failure<T>) -> Self {
        Self { done: vec![], failures: vec![failure] }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.done.extend(other.done);
        self.failures.extend(other.failures);
    }

    /// The messages of all failures together.
    pub(super) fn message(&self) -> String {
        match self.failures.as_slice() {
            [one] => one.message.clone(),
            all => {
                let messages: Vec<_> = all.iter().map(|failure| failure.message.as_str()).collect();
                format!("[{}]", messages.join(", "))
            }
        }
    }
}

impl<T> Failure<T> {
    /// Whether the server has refused a write in one of these ways.
    pub fn is_one_of(&self, refusals: Refusals) -> bool {
        self.error.as_ref().is_some_and(|error| refusals.contain(error))
    }
}

impl Answer {
    /// The object's metadata, if it was written and the server returned it.
    pub fn written(&self) -> Option<&ObjectMeta> {
        match self {
            Self::Written(meta) => meta.as_deref(),
            Self::Refused(_) => None,
        }
    }
}

impl<T> From<Failure<T>> for SyncError {
    fn from(failure: Failure<T>) -> Self {
        let Failure { doing, message, error, retry, expected, .. } = failure;
        match (error, retry) {
            (Some(error), _) => Self::api(doing)(error),
            (None, Retry::Backoff) if expected => Self::other(doing, message).expected(),
            (None, Retry::Backoff) => Self::other(doing, message),
            (None, Retry::Never) => Self::invalid(message),
        }
    }
}
