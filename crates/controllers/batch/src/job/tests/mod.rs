//! Tables for the pure parts, over a small notation for pods: `name:word,word` with the words of [`world::pod`].

mod backoff;
mod gang;
mod indexes;
mod plan;
mod policies;
mod properties;
mod status;
mod template;
mod triggers;
mod verdict;
mod world;
