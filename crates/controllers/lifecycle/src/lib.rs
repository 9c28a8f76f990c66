//! Controllers that end things: what nobody owns any more, what a namespace takes with it, pods that are left over.

pub mod gc;
pub mod namespace;
pub mod podgc;
