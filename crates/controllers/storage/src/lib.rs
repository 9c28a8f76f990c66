//! Controllers of the storage family: claims find volumes, and nothing goes that is still in use.

mod finalizer;
pub mod pvc_protection;
pub mod usage;
