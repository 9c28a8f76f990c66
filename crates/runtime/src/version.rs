//! Which Kubernetes version this is a drop-in for.

/// As `git describe` would have it: shown by `--version`, metrics and user agents.
pub const GIT_VERSION: &str = "v1.36.4";
pub const BINARY: &str = "1.36.4";
pub const MINOR_VERSION: &str = "1.36";
/// Oldest version that other parts of the control plane may have.
pub const MIN_COMPATIBILITY: &str = "1.35";
pub const MAJOR: &str = "1";
pub const MINOR: &str = "36";
pub const FLYBALL: &str = env!("CARGO_PKG_VERSION");

/// The processor, as Go names it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
