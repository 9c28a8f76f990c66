//! `cloud-controller-manager` for clusters on AWS: see docs/aws.md.

use std::process::ExitCode;

/// Returns memory to the system after many objects are gone, which the default allocator does not (see `.cargo/config.toml`).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    flyball_aws::main()
}
