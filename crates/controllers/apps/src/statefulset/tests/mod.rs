//! Tables for the pure parts, over a small notation for pods: `0:ready,old 1:pending` (see [`world`]).

mod every_field;
mod history;
mod manifests;
mod plan;
mod properties;
mod retention;
mod sameness;
mod status;
mod triggers;
mod world;
