//! Simulated nodes. They register, send heartbeats, and play what a kubelet would do to the pods that are bound to
//! them; no container runs anywhere. Annotations say what a pod does ([`steer`]), commands that can be foreseen are
//! ([`script`]), and a node is switched off by an annotation of its own ([`node::STOPPED`]).

mod addresses;
mod conditions;
mod container;
pub mod life;
pub mod node;
pub mod script;
pub mod steer;
mod sync;

pub use sync::{Options, register, run};
