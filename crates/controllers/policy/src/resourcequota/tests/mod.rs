//! Tables for names, scopes, usage, plans and triggers, and properties of the sums.

mod catalog;
mod devices;
mod names;
mod properties;
mod scopes;
mod status;
mod triggers;
mod usage;
mod world;
