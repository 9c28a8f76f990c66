//! Tests against moto, a simulation of AWS that somebody else wrote (`tools/moto`). Skipped where it is not installed.

pub(crate) mod fake;
mod moto;
mod world;
