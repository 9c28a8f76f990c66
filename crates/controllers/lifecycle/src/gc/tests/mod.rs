//! Tables for the pure parts, and a server with faults for the whole.

mod catalog;
mod dot;
mod examination;
mod graph;
mod living;
mod orphaning;
mod patches;
mod plan;
mod world;
