//! A small cluster in one process, for users and for tests: an embedded API server, our controllers, a small scheduler and
//! simulated nodes.
//!
//! In reading order: [`objects`] are the types for pods; [`scheduler`] chooses their nodes; [`nodes`] simulates kubelets;
//! [`disks`] simulates a storage driver; all write through a [`Writer`], which records each write in the decision log;
//! [`cluster`] starts everything.

pub mod cluster;
pub mod disks;
pub mod nodes;
pub mod objects;
pub mod scheduler;
mod writer;

pub use cluster::Cluster;
pub use writer::Writer;
