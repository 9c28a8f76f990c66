//! Controller managers as a library: flags, the table of controllers, and the run from start to end.
//!
//! In reading order: a [`Component`] is what distinguishes one manager from another; [`program`] is its `main`; [`flags`]
//! parses the command line into [`options`]; [`prepare()`] validates them; [`run()`] connects, serves and does leader
//! election; the [`engine`] runs controllers from the [`table`].

pub mod access;
mod campaign;
mod clients;
mod component;
pub mod engine;
pub mod flags;
pub mod logging;
pub mod options;
pub mod parity;
mod prepare;
pub mod program;
pub mod rbac;
mod run;
pub mod select;
mod serve;
pub mod table;
pub mod validate;
mod versions;

pub use component::{Component, KUBE_CONTROLLER_MANAGER};
pub use prepare::{Prepared, prepare};
pub use program::main;
pub use run::{Begin, Equipment, RunError, ServeMore, Surroundings, run};
