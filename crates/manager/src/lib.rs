//! The controller manager as a library: flags, the table of controllers, and the run from start to end.

pub mod flags;
pub mod options;
pub mod parity;
pub mod select;
pub mod table;
