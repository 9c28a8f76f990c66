//! Plans: what to do about one key, as data. The result of every pure `plan` function.
//!
//! A [`Plan`] is a tree of [`Effect`]s, a status, a delay until the next sync and what the key waits for. The
//! [`Executor`] executes the plans of all controllers: [`Executor::run`] writes, records events, raises the barrier and
//! returns an [`Outcome`] for controllers whose status depends on what failed. Their plans have no status; the others may.

mod event;
mod executor;
mod outcome;
mod requests;
#[cfg(test)]
mod tests;
mod waiting;
mod write;

use std::fmt;
use std::time::Duration;

pub use event::{Event, Message};
pub use executor::Executor;
pub use outcome::{Answer, Done, Executed, Failure, Outcome};
pub use waiting::Waiting;
pub use write::{Body, ComputePatch, ComputeUpdate, ErrorKinds, Operation, Write};

use crate::workers::Next;

/// What to do about one key. `T` is the type of the tags with which the controller finds its writes in the [`Outcome`].
#[derive(Debug)]
#[must_use = "a plan does nothing until the executor runs it"]
pub struct Plan<T = ()> {
    /// Writes and events, executed in order. After the first failure, the rest is skipped.
    pub(crate) effects: Vec<Effect<T>>,
    /// The status to write afterwards, also when an effect failed. `None` if the status does not change, or if it depends on
    /// the outcome of the effects.
    pub status: Option<Write>,
    /// After which delay to sync the key again, even if nothing changes.
    pub requeue: Option<Duration>,
    /// What has to happen before there is more to do, for `/debug/waiting`.
    pub waiting: Vec<Waiting>,
}

/// One node of a plan.
#[derive(Debug)]
pub enum Effect<T = ()> {
    /// A request to the API server.
    Write(Box<Write<T>>),
    /// An event about the object.
    Event(Event),
    /// A failure that the plan itself has found. The key is retried with backoff, with a warning.
    Fail(String),
    /// The plan needs something that does not exist yet. The key is retried with backoff, without a warning.
    NotYet(String),
    /// The object is invalid. The key is not retried: only a change of the object can help.
    Invalid(String),
    Group(Group<T>),
}

/// Effects with an order, and the events about all of them together.
#[derive(Debug)]
pub struct Group<T = ()> {
    pub order: Order,
    pub effects: Vec<Effect<T>>,
    /// Recorded when none of them failed.
    pub on_success: Option<Event>,
    /// Recorded when one of them failed, unless the first failure is one of `no_event_for`.
    pub on_failure: Option<Event>,
    /// Errors for which `on_failure` is not recorded.
    pub no_event_for: ErrorKinds,
    /// Errors, ignored by their write or not, after which the rest of the group is skipped. Only for `Sequence` and `Each`.
    pub stop_on: ErrorKinds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other. After the first failure, the rest is skipped.
    Sequence,
    /// One after the other. After a failure, the rest is executed all the same.
    Each,
    /// At the same time, up to a limit. After a failure, the rest is executed all the same.
    Concurrent,
    /// In batches of 1, 2, 4 …, each concurrently. After a batch with a failure, the rest is skipped, so that a used-up quota
    /// costs a few requests and not thousands.
    SlowStart,
}

impl<T> Default for Plan<T> {
    fn default() -> Self {
        Self { effects: vec![], status: None, requeue: None, waiting: vec![] }
    }
}

impl<T> Plan<T> {
    pub fn of(effects: impl IntoIterator<Item = impl Into<Effect<T>>>) -> Self {
        Self { effects: effects.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// What it does, for invariants and tests. Only the executor can take it out of the plan, and so it executes all or nothing.
    pub fn effects(&self) -> &[Effect<T>] {
        &self.effects
    }

    pub fn push(&mut self, effect: impl Into<Effect<T>>) {
        self.effects.push(effect.into());
    }

    /// The same after other effects.
    pub fn preceded_by(mut self, effects: impl IntoIterator<Item = impl Into<Effect<T>>>) -> Self {
        self.effects.splice(..0, effects.into_iter().map(Into::into));
        self
    }

    /// Does nothing, and syncs the key again after `delay`.
    pub fn after(delay: Duration) -> Self {
        Self { requeue: Some(delay), ..Self::default() }
    }

    pub fn waiting_for(self, waiting: impl IntoIterator<Item = Waiting>) -> Self {
        Self { waiting: waiting.into_iter().collect(), ..self }
    }

    pub fn with_status(self, status: impl Into<Option<Write>>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// Sets the delay until the next sync.
    pub fn again_after(self, delay: impl Into<Option<Duration>>) -> Self {
        Self { requeue: delay.into(), ..self }
    }

    /// All writes of the effects, also those in groups, in the order of the plan. The status is not among them.
    pub fn writes(&self) -> Vec<&Write<T>> {
        let mut found = vec![];
        self.effects.iter().for_each(|effect| effect.collect_writes(&mut found));
        found
    }

    /// What happens to the key after the plan was executed without a failure.
    pub fn next(&self) -> Next {
        self.requeue.map_or(Next::Settled, Next::After)
    }
}

impl<T> Effect<T> {
    /// See [`Order::Sequence`].
    pub fn sequence(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Sequence, effects)
    }

    /// See [`Order::Each`].
    pub fn each(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Each, effects)
    }

    /// See [`Order::Concurrent`].
    pub fn concurrent(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Concurrent, effects)
    }

    /// See [`Order::SlowStart`].
    pub fn slow_start(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::SlowStart, effects)
    }

    fn collect_writes<'a>(&'a self, found: &mut Vec<&'a Write<T>>) {
        match self {
            Self::Write(write) => found.push(write),
            Self::Group(group) => group.effects.iter().for_each(|effect| effect.collect_writes(found)),
            Self::Event(_) | Self::Fail(_) | Self::NotYet(_) | Self::Invalid(_) => {}
        }
    }
}

impl<T> Group<T> {
    pub fn new(order: Order, effects: impl IntoIterator<Item = impl Into<Effect<T>>>) -> Self {
        Self {
            order,
            effects: effects.into_iter().map(Into::into).collect(),
            on_success: None,
            on_failure: None,
            no_event_for: ErrorKinds::NONE,
            stop_on: ErrorKinds::NONE,
        }
    }

    /// Records `event` when no effect of the group failed.
    pub fn on_success(self, event: Event) -> Self {
        Self { on_success: Some(event), ..self }
    }

    /// Records `event` when an effect of the group failed.
    pub fn on_failure(self, event: Event) -> Self {
        Self { on_failure: Some(event), ..self }
    }

    /// Does not record `on_failure` if the first failure is one of these errors.
    pub fn no_event_for(self, kinds: ErrorKinds) -> Self {
        Self { no_event_for: kinds, ..self }
    }

    /// Skips the rest of the group after one of these errors, also if the write ignores it.
    pub fn stop_on(self, kinds: ErrorKinds) -> Self {
        Self { stop_on: kinds, ..self }
    }
}

impl<T> From<Write<T>> for Effect<T> {
    fn from(write: Write<T>) -> Self {
        Self::Write(Box::new(write))
    }
}

impl<T> From<Event> for Effect<T> {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl<T> From<Group<T>> for Effect<T> {
    fn from(group: Group<T>) -> Self {
        Self::Group(group)
    }
}

/// For tables: one line per effect, groups indented.
impl<T> fmt::Display for Plan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![];
        self.effects.iter().for_each(|effect| effect.describe(0, &mut lines));
        lines.extend(self.status.iter().map(ToString::to_string));
        lines.extend(self.requeue.map(|delay| format!("again after {delay:?}")));
        lines.extend(self.waiting.iter().map(|waiting| format!("waiting for {waiting}")));
        f.write_str(&lines.join("\n"))
    }
}

/// For tables: one line per effect, groups indented.
impl<T> fmt::Display for Effect<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![];
        self.describe(0, &mut lines);
        f.write_str(&lines.join("\n"))
    }
}

impl<T> Effect<T> {
    fn describe(&self, depth: usize, lines: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        match self {
            Self::Write(write) => {
                lines.extend(write.to_string().lines().map(|line| format!("{indent}{line}")));
            }
            Self::Event(event) => lines.push(format!("{indent}{event}")),
            Self::Fail(message) => lines.push(format!("{indent}fail: {message}")),
            Self::NotYet(message) => lines.push(format!("{indent}not yet: {message}")),
            Self::Invalid(message) => lines.push(format!("{indent}invalid: {message}")),
            Self::Group(group) => {
                let Group { order, effects, on_success, on_failure, .. } = group;
                lines.push(format!("{indent}{}", order.name()));
                effects.iter().for_each(|effect| effect.describe(depth + 1, lines));
                lines.extend(on_success.iter().map(|event| format!("{indent}then {event}")));
                lines.extend(on_failure.iter().map(|event| format!("{indent}else {event}")));
            }
        }
    }
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Sequence => "in sequence",
            Self::Each => "each",
            Self::Concurrent => "concurrently",
            Self::SlowStart => "slow start",
        }
    }
}
