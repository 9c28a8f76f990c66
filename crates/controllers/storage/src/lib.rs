//! Controllers of the storage family: claims find volumes, and nothing goes that is still in use.

pub mod attach_detach;
mod backoff;
pub mod binder;
mod class;
pub mod disk;
pub mod ephemeral_volume;
pub mod expander;
mod finalizer;
mod migration;
mod names;
pub mod pv_protection;
pub mod pvc_protection;

pub mod selinux_warning;
pub mod usage;
pub mod vac_protection;
