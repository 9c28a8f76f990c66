//! Under construction.

pub mod config;
pub mod election;
pub mod gates;
pub mod metrics;
mod nearest;
pub mod serving;
pub mod version;

pub use nearest::nearest;
