//! Which Kubernetes version this is a drop-in for, and which it emulates.

use std::fmt;

/// As `git describe` would have it: shown by `--version`, metrics and user agents.
pub const GIT_VERSION: &str = "v1.36.4";
pub const BINARY: &str = GIT_VERSION.split_at(1).1;
pub const MAJOR: &str = "1";
pub const MINOR: &str = "36";
/// The version whose behaviour this is, unless an older one is emulated.
pub const CURRENT: Minor = Minor::new(1, 36);
/// The oldest version that can be emulated, and that other parts of the control plane may have.
pub const OLDEST: Minor = Minor::new(1, 33);
pub const FLYBALL: &str = env!("CARGO_PKG_VERSION");

/// A version without its patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    major: u32,
    minor: u32,
}

impl Minor {
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    pub const fn previous(self) -> Self {
        Self { major: self.major, minor: self.minor.saturating_sub(1) }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The versions that decide how this process behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The version to emulate.
    pub emulated: Minor,
    /// The oldest version that other parts of the control plane may have.
    pub min_compatibility: Minor,
}

impl Versions {
    /// With the release before it as the oldest of the others, if that can be one.
    pub fn emulating(emulated: Minor) -> Self {
        Self { emulated, min_compatibility: emulated.previous().max(OLDEST) }
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::emulating(CURRENT)
    }
}

/// The processor, as Go names it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
