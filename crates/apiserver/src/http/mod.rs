//! The HTTP side: reads requests, writes responses.

pub(crate) mod body;
pub(crate) mod command;
mod json;
pub(crate) mod message;
pub(crate) mod negotiate;
pub(crate) mod path;
pub(crate) mod protobuf;
pub(crate) mod query;
pub(crate) mod relay;
pub(crate) mod respond;
pub(crate) mod spdy;
pub(crate) mod websocket;
