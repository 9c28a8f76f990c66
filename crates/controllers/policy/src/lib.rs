//! Controllers of the policy family: how much may be disrupted at once, and how much a namespace may hold.

pub mod disruption;
pub mod resourcequota;
