//! `cloud-controller-manager` for clusters on one's own Linux machines: see docs/linux.md.

use std::process::ExitCode;

/// Returns memory to the system after many objects are gone, which the default allocator does not (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    flyball_linux::main()
}
