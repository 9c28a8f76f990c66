//! The HTTP side: reads requests, writes responses.

pub(crate) mod body;
mod json;
pub(crate) mod negotiate;
pub(crate) mod path;
pub(crate) mod protobuf;
pub(crate) mod query;
pub(crate) mod respond;
pub(crate) mod websocket;
