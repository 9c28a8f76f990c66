//! Tables for the content of namespaces, what is left of it, and the conditions about it.

mod confirmation;
mod content;
mod plan;
mod status;
mod triggers;
