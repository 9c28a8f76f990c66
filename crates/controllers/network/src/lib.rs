//! Controllers of the network family: the addresses behind Services, and the ranges of Service addresses.

mod addresses;
pub mod endpoints;
pub mod endpointslice;
mod members;
pub mod mirroring;
mod names;
mod own_writes;
mod ports;
pub mod service_cidr;
mod slices;
mod trigger_time;
