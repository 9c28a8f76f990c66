//! What is counted, by which words, in which scopes; and that the sum is the sum.

mod catalog;
mod devices;
mod names;
mod properties;
mod scopes;
mod status;
mod triggers;
mod usage;
mod world;
