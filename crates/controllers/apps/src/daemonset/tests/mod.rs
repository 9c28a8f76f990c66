//! Tables for the pure parts, over a small notation for nodes and pods (see [`world`]).

mod history;
mod manifests;
mod placement;
mod plan;
mod properties;
mod status;
mod triggers;
mod world;
