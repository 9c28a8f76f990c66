//! Controllers of the network family: which addresses stand behind a Service.

mod addresses;
pub mod endpoints;
pub mod endpointslice;
mod ledger;
mod members;
mod names;
mod ports;
mod slices;
mod trigger_time;
