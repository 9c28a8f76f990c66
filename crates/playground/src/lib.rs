//! A whole little cluster in one process, for people and for tests: an embedded API server, our controllers, a small
//! scheduler and simulated nodes.
//!
//! In reading order: [`objects`] is what is read of pods; [`scheduler`] decides where they go; [`nodes`] plays what
//! kubelets would do; [`disks`] makes volumes as a storage driver would; all write through a [`Hand`], which notes each
//! write in the decision log; [`cluster`] puts it all together.

pub mod cluster;
pub mod disks;
mod hand;
pub mod nodes;
pub mod objects;
pub mod scheduler;

pub use cluster::Cluster;
pub use hand::Hand;
