//! A small cluster in one process, for users and for tests: an embedded API server, our controllers, a small scheduler and
//! simulated nodes.
//!
//! In reading order: [`objects`] are the types for pods; [`scheduler`] chooses their nodes; [`nodes`] simulates kubelets;
//! [`disks`] simulates a storage driver; all write through a [`Writer`], which records each write in the decision log;
//! [`cluster`] starts everything; [`timeline`] moves its time.

pub mod cluster;
pub mod disks;
pub mod nodes;
pub mod objects;
pub mod scheduler;
pub mod timeline;
mod writer;

pub use cluster::Cluster;
pub use writer::Writer;
