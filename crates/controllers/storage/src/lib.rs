//! Controllers of the storage family: claims find volumes, and nothing goes that is still in use.

pub mod attach_detach;
pub mod ephemeral_volume;
mod finalizer;
mod names;
pub mod pv_protection;
pub mod pvc_protection;
pub mod usage;
pub mod vac_protection;
