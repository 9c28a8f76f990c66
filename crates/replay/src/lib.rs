//! Records a cluster's objects and their changes, and plays such a recording against the embedded server in virtual time.
//!
//! In reading order: [`record`] follows a cluster; [`redact`] removes what may be secret before anything is kept; [`mod@file`] is what is
//! written; [`script`] turns a recording into what others than the components of Kubernetes did ([`attribute`] tells them apart);
//! [`play`] does it again, while our own controllers, scheduler and nodes react; [`history`] and [`diff`] compare their decisions.
//!
//! A replay repeats exactly: one thread, one seed, paused time.

pub mod attribute;
pub mod diff;
pub mod file;
pub mod history;
pub mod merge;
pub mod overrides;
pub mod play;
pub mod record;
pub mod redact;
pub mod script;
