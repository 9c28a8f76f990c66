//! Tables for the pure parts, and a server with faults for the whole.

mod catalog;
mod dot;
mod graph;
mod living;
mod patches;
mod plan;
mod world;
