//! Controllers of the network family: which addresses stand behind a Service.

mod addresses;
pub mod endpoints;
pub mod endpointslice;
mod ledger;
mod members;
pub mod mirroring;
mod names;
mod ports;
pub mod service_cidr;
mod slices;
mod trigger_time;
