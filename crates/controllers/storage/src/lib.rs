//! Controllers of the storage family: claims are bound to volumes, disks are attached to nodes, and nothing is deleted that is
//! still in use.

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
