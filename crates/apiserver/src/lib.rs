//! An embedded Kubernetes API server as clients see it: a tower service over a versioned store, without sockets
//! and deterministic under a given clock and seed; an HTTPS server over it for everyone else.

pub mod invalid;
pub mod kinds;
pub mod registry;
pub mod schema;
pub mod store;
