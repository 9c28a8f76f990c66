//! The outcome of a plan's effects, for controllers that decide something from it, such as a status.

use flyball_api::ObjectMeta;
use flyball_client::{Error, Verb};

use super::write::ErrorKinds;
use crate::error::{Retry, SyncError};
use crate::workers::Next;

/// The outcome of effects. Effects that were not executed, because an earlier one failed, are not in it.
#[derive(Debug)]
#[must_use = "it says what failed"]
pub struct Outcome<T = ()> {
    /// The writes that succeeded, in the order of the plan.
    pub done: Vec<Done<T>>,
    /// The failures, in the order of the plan.
    pub failures: Vec<Failure<T>>,
}

/// A plan that was executed.
#[derive(Debug)]
#[must_use = "it says when to sync the key again, and what failed"]
pub struct Executed<T = ()> {
    /// What happens to the key if nothing failed.
    pub next: Next,
    /// The outcome of the effects.
    pub outcome: Outcome<T>,
    /// The outcome of writing the status of the plan.
    pub status: Outcome,
}

impl<T> Executed<T> {
    /// What a sync returns.
    ///
    /// # Errors
    /// The first error, of the effects or else of the status.
    pub fn result(self) -> Result<Next, SyncError> {
        self.outcome.result().and(self.status.result()).map(|()| self.next)
    }
}

/// A write that succeeded, or failed with an error that the plan ignores.
#[derive(Debug)]
pub struct Done<T> {
    /// The tag of the write in the plan.
    pub tag: T,
    pub answer: Answer,
}

#[derive(Debug)]
pub enum Answer {
    /// The write was made. The metadata of the object is that of the response, if it has any.
    Written(Option<Box<ObjectMeta>>),
    /// The write failed with an error that the plan ignores, for example because the object is gone.
    Ignored(Error),
}

#[derive(Debug)]
pub struct Failure<T = ()> {
    /// The tag of the write; `None` if the failure is not one of a write.
    pub tag: Option<T>,
    /// The verb of the write, also if the failed request was a read before it.
    pub verb: Option<Verb>,
    /// What was attempted, such as `deleting Pod ns/a`.
    pub doing: String,
    /// The message for events and conditions.
    pub message: String,
    /// The error of the request; `None` if the failure is not one of a write.
    pub error: Option<Error>,
    /// Whether trying again can help.
    pub retry: Retry,
    /// Whether this is normal, as when something does not exist yet, and logged without a warning.
    pub is_expected: bool,
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

    /// Whether writes were left out because etcd was restored, or may have been, since they were planned.
    pub fn is_outdated(&self) -> bool {
        self.failures.iter().any(|failure| failure.is_one_of(ErrorKinds::OUTDATED))
    }

    pub fn failure(&self) -> Option<&Failure<T>> {
        self.failures.first()
    }

    /// What a sync returns: the first failure, if there is one.
    pub fn result(self) -> Result<(), SyncError> {
        self.failures.into_iter().next().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// The writes that were made; those with an ignored error are not among them.
    pub fn written(&self) -> impl Iterator<Item = &Done<T>> {
        self.done.iter().filter(|done| matches!(done.answer, Answer::Written(_)))
    }

    /// The errors that the plan ignores, with the tags of their writes.
    pub fn ignored(&self) -> impl Iterator<Item = (&T, &Error)> {
        self.done.iter().filter_map(|done| match &done.answer {
            Answer::Ignored(error) => Some((&done.tag, error)),
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

    /// The messages of all failures together, each once, as upstream's aggregate errors print them.
    pub(super) fn message(&self) -> String {
        let mut messages: Vec<&str> = vec![];
        for Failure { message, .. } in &self.failures {
            if !messages.contains(&message.as_str()) {
                messages.push(message);
            }
        }
        match messages.as_slice() {
            [one] => (*one).to_owned(),
            all => format!("[{}]", all.join(", ")),
        }
    }
}

impl<T> Failure<T> {
    /// The HTTP status code of the server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        self.error.as_ref().and_then(Error::code)
    }

    pub fn is_one_of(&self, kinds: ErrorKinds) -> bool {
        self.error.as_ref().is_some_and(|error| kinds.contains(error))
    }
}

impl Answer {
    /// The object's metadata, if it was written and the server returned it.
    pub fn written(&self) -> Option<&ObjectMeta> {
        match self {
            Self::Written(meta) => meta.as_deref(),
            Self::Ignored(_) => None,
        }
    }
}

impl<T> From<Failure<T>> for SyncError {
    fn from(failure: Failure<T>) -> Self {
        let Failure { doing, message, error, retry, is_expected, .. } = failure;
        match (error, retry) {
            (Some(error), _) => Self::api(doing)(error),
            (None, Retry::Backoff) if is_expected => Self::other(doing, message).expected(),
            (None, Retry::Backoff) => Self::other(doing, message),
            (None, Retry::Never) => Self::invalid(message),
        }
    }
}
