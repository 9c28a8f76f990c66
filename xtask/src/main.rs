//! Tasks of this repository that are more than one command: `cargo xtask --help`.

mod assets;
mod bench;
mod conformance;
mod dist;
mod gates;
mod go;
mod golden;
mod hashes;
#[cfg(test)]
mod never;
mod oci;
mod sim;
mod soak;
#[cfg(test)]
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// A simulation spends a quarter of its time in the default allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the Flyball repository")]
enum Task {
    /// Build the real control plane (etcd, kube-apiserver, …) into a cache folder, unless it exists
    Assets(assets::Options),
    /// Run golden scenarios: ours must do what upstream's controller manager did
    Golden(golden::Options),
    /// Run golden scenarios under faults, in virtual time: they must end as they do without faults
    Sim(sim::Options),
    /// Compare our hashes of random pod templates with upstream's
    Hashes(hashes::Options),
    /// Compare our feature gates, at random versions and settings, with upstream's
    Gates(gates::Options),
    /// Measure our controller manager and upstream's under the same load
    Bench(bench::Options),
    /// Kill our controller manager, the API server and etcd repeatedly under load: no object may be lost or left behind
    Soak(soak::Options),
    /// Run upstream's end-to-end tests on real nodes, with upstream's controller manager and with ours (root, Linux)
    Conformance(conformance::Options),
    /// Build what is shipped: static programs, checksums, lists of their parts (SBOM) and container images
    Dist(dist::Options),
    /// Compare what ours would do with what upstream's does, on real nodes under test load (root, Linux)
    Shadow(conformance::shadow::Options),
}

fn main() -> ExitCode {
    // Logs nothing by default; `RUST_LOG=debug cargo xtask sim …` enables logs.
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::builder().with_default_directive(LevelFilter::OFF.into()).from_env_lossy(),
        )
        .with_writer(std::io::stderr)
        .init();
    let result = match Task::parse() {
        Task::Assets(options) => assets::run(&options),
        Task::Golden(options) => golden::run(&options),
        Task::Sim(options) => sim::run(&options),
        Task::Hashes(options) => hashes::run(&options),
        Task::Gates(options) => gates::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Shadow(options) => conformance::shadow::run(&options),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The value of a line `key = "value"`.
    fn value(file: &str, key: &str) -> String {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let start = format!("{key} = \"");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{file}: no {key}")).trim_end_matches('"').to_owned()
    }

    // So every build in CI also checks the minimum supported Rust version.
    #[test]
    fn the_pinned_toolchain_is_the_minimum_supported_one() {
        assert_eq!(value("rust-toolchain.toml", "channel"), value("Cargo.toml", "rust-version") + ".0");
    }
}
