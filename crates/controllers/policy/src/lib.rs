//! Controllers of the policy family: what admission policies get wrong, how much may be disrupted at
//! once, and how much a namespace may hold.

pub mod admission_policy;
pub mod disruption;
pub mod resourcequota;
