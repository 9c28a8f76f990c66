//! What every controller builds on: context, executor with write barrier, decision log, event recorder, supervisor, metrics
//! and settings.
//!
//! In reading order: a controller is set up by a [`Start`] function, which declares triggers and workers in
//! [`Tasks`]; a worker calls [`Reconcile::sync`] with a key; the sync reads caches through its [`Context`], and carries out its
//! [`Plan`] with an [`Executor`]; the [`Barrier`](barrier::Barrier) delays the next sync of the key until the cache shows
//! what was written; [`supervise`] sets all this up again after a panic.

pub mod barrier;
pub mod clock;
pub mod config;
mod context;
mod debug;
pub mod decisions;
mod descriptor;
mod error;
pub mod events;
mod extensions;
mod fresh;
pub mod gates;
pub mod guard;
mod health;
mod insight;
mod judge;
pub mod metrics;
mod nearest;
mod panics;
mod pending_writes;
mod periodic;
pub mod plan;
mod quarantine;
#[cfg(test)]
mod scripted;
mod signal;
mod supervisor;
mod tasks;
pub mod version;
mod workers;
mod writer;

pub use flyball_client::Chain;

pub use clock::Clock;
pub use context::{Context, Shared};
pub use debug::{DebugPage, DebugPages, ShowDebug};
pub use descriptor::{Check, Start, StartError};
pub use error::{Retry, SyncError};
pub use extensions::Extensions;
pub use fresh::Fresh;
pub use guard::Guard;
pub use health::{Complaint, Health};
pub use insight::{ControllerState, Insight, Stale, Work};
pub use judge::{Judge, all_hold};
pub use metrics::Metrics;
pub use nearest::nearest;
pub use panics::{PanicInjector, Place};
pub use periodic::{Periodic, Schedule};
pub use plan::{Effect, ErrorKinds, Event, Executed, Executor, Message, Outcome, Plan, Waiting, Write};
pub use signal::{Leadership, LeadershipSender, Signal, SignalSender, Since};
pub use supervisor::{Supervision, supervise};
pub use tasks::{Ended, Tasks, priority};
pub use workers::{Next, Reconcile, Syncing, WorkKey};
pub use writer::exactly;
