//! Controller managers as a library: flags, the table of controllers, and the run from start to end.
//!
//! In reading order: a [`Component`] is what distinguishes one manager from another; [`program`] is its `main`; [`flags`]
//! parses the command line into [`options`]; [`prepare()`] validates them; [`preflight`] reads the files that controllers need;
//! [`run()`] connects and serves; `lead` does leader
//! election; the [`engine`] runs controllers from the [`table`].

pub mod access;
mod cache_remark;
mod campaign;
mod clients;
mod component;
pub mod engine;
mod equipment;
pub mod flags;
mod lead;
pub mod logging;
mod migration;
pub mod options;
pub mod parity;
pub mod preflight;
mod prepare;
pub mod program;
pub mod rbac;
mod run;
pub mod select;
mod serve;
pub mod table;
pub mod validate;
mod versions;

pub use component::{Component, KUBE_CONTROLLER_MANAGER, Release};
pub use equipment::{Begin, End, Ending, Equipment, Foundation, LeaderContext, ServeMore};
pub use lead::handover_margin;
pub use prepare::{Prepared, prepare};
pub use program::main;
pub use run::{RunError, SHADOW, is_shadow, run};
