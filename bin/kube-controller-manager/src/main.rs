//! `kube-controller-manager`: flags in, exit code out. Everything else is in `flyball-manager`.

use std::process::ExitCode;

/// Gives memory back after a wave of objects, which the system's allocator keeps (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    flyball_manager::main()
}
