//! Tables for packing and hints, and a property over whole histories.

mod hints;
mod metrics;
mod packing;
mod plan;
mod world;
