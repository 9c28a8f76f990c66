//! Under construction.

pub mod config;
pub mod gates;
mod nearest;
pub mod serving;

pub use nearest::nearest;
