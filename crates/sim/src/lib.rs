//! The bench: a cluster for a test (a real control plane, or the embedded server), and the golden scenarios that
//! say what upstream's controller manager makes of what happens in it.
//!
//! Reading order: [`cluster`] starts a real control plane, [`api`] talks to any, [`golden`] runs scenarios over both.

pub mod api;
pub mod audit;
pub mod client;
pub mod cluster;
pub mod embedded;
mod end_state;
pub mod faults;
pub mod features;
pub mod golden;
pub mod invariants;
pub mod load;
pub mod nodes;
pub mod ours;
pub mod proxy;
pub mod testbed;
pub mod trial;
