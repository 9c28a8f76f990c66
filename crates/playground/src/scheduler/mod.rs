//! A small scheduler. [`decide`] is pure: a pod and the [`Snapshot`] give a [`ScheduleResult`]. It supports resources, selectors,
//! affinities, taints, spreading, ports, volumes and priorities, and uses kube-scheduler's messages; the shell in `sync`
//! binds, evicts, and writes conditions and events.

mod affinity;
mod decide;
mod filter;
mod preempt;
mod requests;
mod score;
mod snapshot;
mod spread;
mod sync;
mod terms;
mod volumes;

pub use decide::{ScheduleResult, decide};
pub use preempt::Preemption;
pub use snapshot::{NodeInfo, Snapshot};
pub use sync::run;
pub(crate) use volumes::SELECTED_NODE;
pub use volumes::{Preparation, Volumes};

/// The scheduler's name in pods and in events.
pub const NAME: &str = "default-scheduler";

#[cfg(test)]
mod tests;
