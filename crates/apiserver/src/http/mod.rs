//! The HTTP side: what a request asks for, and how an answer is written.

pub mod body;
pub mod negotiate;
pub mod path;
pub mod protobuf;
pub mod query;
pub mod respond;
