//! Controllers of the resource family: devices that pods ask for.

pub mod claim;
pub mod pool_status;
pub mod taint_eviction;
