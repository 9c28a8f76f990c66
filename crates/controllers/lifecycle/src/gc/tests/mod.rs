//! Tables for what is pure, and a world of faults for all of it together.

mod catalog;
mod dot;
mod graph;
mod living;
mod patches;
mod plan;
mod world;
