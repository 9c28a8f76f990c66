//! Tables for the pure parts, over a small notation for Deployments and ReplicaSets: see [`world`].

mod history;
mod limits;
mod plan;
mod progress;
mod properties;
mod rollback;
mod status;
mod triggers;
mod world;
