//! Simulated disks. They play the driver that a cloud would bring: volumes are made for claims, attached to nodes, grown,
//! and deleted when nobody wants them any more. There is a default class for them, so that a claim that says nothing
//! about storage gets one.

mod plan;
mod sync;
#[cfg(test)]
mod tests;

pub use sync::{register, run};
