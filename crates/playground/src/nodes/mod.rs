//! Simulated nodes. They register, send heartbeats, and do what a kubelet would do with the pods that are bound to them; no
//! container really runs. Annotations say how a pod behaves ([`behaviour`]), simple commands are interpreted ([`script`]), and
//! a node is switched off by an annotation of its own ([`node::STOPPED`]).

mod addresses;
pub mod behaviour;
mod conditions;
mod container;
pub mod life;
pub mod machines;
pub mod node;
pub(crate) mod page;
pub mod power;
mod probes;
pub mod script;
mod shell;
mod sync;
pub(crate) mod terminal;

pub use sync::{Options, register, run};
