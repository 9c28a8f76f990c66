//! A small scheduler. [`decide`] is pure: a pod and the [`World`] give a [`Verdict`]. It knows the rules that people
//! write into pods (resources, selectors, affinities, taints, spreading, ports, volumes, priorities) and explains
//! itself in kube-scheduler's words; the shell in `sync` binds, evicts and tells.

mod affinity;
mod decide;
mod filter;
mod preempt;
mod requests;
mod score;
mod spread;
mod sync;
mod terms;
mod volumes;
mod world;

pub use decide::{Verdict, decide};
pub use preempt::Preemption;
pub use sync::run;
pub(crate) use volumes::SELECTED_NODE;
pub use volumes::{Preparation, Volumes};
pub use world::{Seat, World};

/// The scheduler's name in pods and in events.
pub const NAME: &str = "default-scheduler";

#[cfg(test)]
mod tests;
