//! Under construction.

pub mod config;
pub mod gates;
mod nearest;

pub use nearest::nearest;
