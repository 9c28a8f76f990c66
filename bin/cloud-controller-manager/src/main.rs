//! `cloud-controller-manager` with the clouds that come with Flyball. A vendor's own is as short: see docs/cloud.md.

use std::process::ExitCode;

/// Gives memory back after a wave of objects, which the system's allocator keeps (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    flyball_cloud::main(&[flyball_cloud::simulated::PROVIDER])
}
