//! Controllers that look after nodes: whether they are alive, what may stay on them, which addresses they hand out.

pub mod ipam;
pub mod lifecycle;
pub mod tainteviction;
pub mod ttl;
