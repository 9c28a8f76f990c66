//! Tables for the pure parts, over a small notation for Deployments and ReplicaSets: see [`world`].

mod after;
mod decision;
mod history;
mod limits;
mod plan;
mod progress;
mod properties;
mod rollback;
mod status;
mod triggers;
mod world;
