//! Tables for the pure parts, over a small notation for pods: `name:word,word` with the words of [`world::pod`].

mod ages;
mod plan;
mod properties;
mod status;
mod triggers;
mod world;
