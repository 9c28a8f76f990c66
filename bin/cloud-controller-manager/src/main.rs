//! `cloud-controller-manager` with the clouds that come with Flyball. A vendor's own binary is as short: see docs/cloud.md.

use std::process::ExitCode;

/// Returns memory to the system after many objects are gone, which the default allocator does not (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    flyball_cloud::main(&[flyball_cloud::simulated::PROVIDER])
}
