//! Tables for the binder, over volumes and claims in words.

mod claims;
mod edits;
mod matching;
mod results;
mod volumes;
mod world;
