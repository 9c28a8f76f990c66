//! Tables for packing and hints, and a property over whole histories.

mod hints;
mod packing;
mod plan;
mod world;
