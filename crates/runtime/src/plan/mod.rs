//! What a controller wants done about one key, as data: the result of every pure `plan`.
//!
//! A [`Plan`] is a tree of [`Effect`]s, a status, the time of the next look and what the key waits for. The
//! [`Executor`] is the only place that carries plans out: it writes, records events, raises the write barrier and
//! returns an [`Outcome`] for controllers whose status depends on what failed.

mod event;
mod executor;
mod outcome;
#[cfg(test)]
mod tests;
mod waiting;
mod write;

use std::fmt;
use std::time::Duration;

pub use event::{Event, Message};
pub use executor::Executor;
pub use outcome::{Answer, Done, Failure, Outcome};
pub use waiting::Waiting;
pub use write::{Body, ComputePatch, ComputeUpdate, Operation, Refusals, Write};

use crate::tasks::Next;

/// What to do about one key. `T` is what the controller wants to find again in the [`Outcome`] of each write.
#[derive(Debug)]
pub struct Plan<T = ()> {
    /// Writes and events, carried out in order; the first failure is the last.
    pub effects: Vec<Effect<T>>,
    /// The status to write afterwards, also when an effect failed. Absent when it says nothing new, or when it depends
    /// on what comes of the effects.
    pub status: Option<Write>,
    /// When to look at the key again without being asked.
    pub requeue: Option<Duration>,
    /// What has to happen elsewhere before there is more to do.
    pub waiting: Vec<Waiting>,
}

/// One node of a plan: something to do, or a group of such.
#[derive(Debug)]
pub enum Effect<T = ()> {
    /// A request to the API server.
    Write(Box<Write<T>>),
    /// An event about the object.
    Event(Event),
    /// A failure that is known without asking the server.
    Fail(String),
    /// Something is not there yet: the key is tried again with backoff, without a warning.
    NotYet(String),
    /// The same as `Fail` where trying again cannot help: only a change of the object can.
    Invalid(String),
    Group(Group<T>),
}

/// Effects that belong together, and the events about all of them.
#[derive(Debug)]
pub struct Group<T = ()> {
    /// How they follow each other.
    pub order: Order,
    pub effects: Vec<Effect<T>>,
    /// Recorded when none of them failed.
    pub on_success: Option<Event>,
    /// Recorded when one of them failed, except for the refusals in `quiet`.
    pub on_failure: Option<Event>,
    /// Refusals that are not worth an event.
    pub quiet: Refusals,
    /// Refusals, accepted or not, after which nothing more of the group is tried, where effects follow each other.
    pub ends_at: Refusals,
}

/// How the effects of a group follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other; the first failure is the last.
    Sequence,
    /// One after the other; a failure does not keep the others from being tried.
    Each,
    /// Side by side, a bounded number at a time. All are tried.
    Concurrent,
    /// In batches of 1, 2, 4 …; no batch follows one with a failure, so that a used-up quota costs a few requests and
    /// not thousands.
    SlowStart,
}

impl<T> Default for Plan<T> {
    fn default() -> Self {
        Self { effects: vec![], status: None, requeue: None, waiting: vec![] }
    }
}

impl<T> Plan<T> {
    /// A plan of these effects.
    pub fn of(effects: impl IntoIterator<Item = impl Into<Effect<T>>>) -> Self {
        Self { effects: effects.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Nothing to do for this long.
    pub fn after(delay: Duration) -> Self {
        Self { requeue: Some(delay), ..Self::default() }
    }

    /// The same plan with what is waited for.
    pub fn waiting_for(self, waiting: impl IntoIterator<Item = Waiting>) -> Self {
        Self { waiting: waiting.into_iter().collect(), ..self }
    }

    /// The same plan with a status to write.
    pub fn with_status(self, status: impl Into<Option<Write>>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// The same plan with a time for the next look.
    pub fn again_after(self, delay: impl Into<Option<Duration>>) -> Self {
        Self { requeue: delay.into(), ..self }
    }

    /// Every write in it, in the order in which they are planned.
    pub fn writes(&self) -> Vec<&Write<T>> {
        let mut found = vec![];
        self.effects.iter().for_each(|effect| effect.collect_writes(&mut found));
        found
    }

    /// What is to happen to the key once the plan is carried out.
    pub fn next(&self) -> Next {
        self.requeue.map_or(Next::Settled, Next::After)
    }
}

impl<T> Effect<T> {
    /// One after the other; the first failure is the last.
    pub fn sequence(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Sequence, effects)
    }

    /// One after the other, whatever comes of those before.
    pub fn each(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Each, effects)
    }

    pub fn concurrent(effects: impl IntoIterator<Item = impl Into<Self>>) -> Group<T> {
        Group::new(Order::Concurrent, effects)
    }

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
    /// A group in an order that is chosen at run time.
    pub fn new(order: Order, effects: impl IntoIterator<Item = impl Into<Effect<T>>>) -> Self {
        Self {
            order,
            effects: effects.into_iter().map(Into::into).collect(),
            on_success: None,
            on_failure: None,
            quiet: Refusals::NONE,
            ends_at: Refusals::NONE,
        }
    }

    /// Records `event` when nothing failed.
    pub fn on_success(self, event: Event) -> Self {
        Self { on_success: Some(event), ..self }
    }

    /// Records `event` when something failed.
    pub fn on_failure(self, event: Event) -> Self {
        Self { on_failure: Some(event), ..self }
    }

    /// Records no event about these refusals.
    pub fn quiet(self, refusals: Refusals) -> Self {
        Self { quiet: refusals, ..self }
    }

    /// Tries nothing more after one of these refusals, where effects follow each other.
    pub fn ends_at(self, refusals: Refusals) -> Self {
        Self { ends_at: refusals, ..self }
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
