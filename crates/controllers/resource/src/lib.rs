//! Controllers of the resource family: devices that pods request by ResourceClaims.

pub mod pool_status;
pub mod resource_claim;
pub mod taint_eviction;
