//! Tables for what is found, what is left and what is said about it.

mod content;
mod plan;
mod status;
mod triggers;
