//! The controller manager as a library: flags, the table of controllers, and the run from start to end.
//!
//! In reading order: [`main`] is the program; [`flags`] reads the command line into [`options`]; [`prepare`] makes
//! a plan of it; [`run`] connects, serves and wins the election; the [`engine`] runs controllers from the [`table`].

pub mod engine;
pub mod flags;
pub mod logging;
pub mod options;
pub mod parity;
mod prepare;
mod program;
mod run;
pub mod select;
pub mod table;
mod validate;

pub use prepare::{Prepared, prepare};
pub use program::main;
pub use run::{RunError, run};
