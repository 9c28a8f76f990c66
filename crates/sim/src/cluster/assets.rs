//! The binaries of the real control plane, and the message if they are missing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version of Kubernetes that this project replaces and tests against.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// The binaries of a control plane, in the order in which they are built.
pub const BINARIES: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "kube-scheduler",
    CLOUD_CONTROLLER_MANAGER,
];

/// Upstream's library for cloud-controller-managers over its fake cloud (`tools/controlplane/cloud`).
pub const CLOUD_CONTROLLER_MANAGER: &str = "cloud-controller-manager";

/// Why a test that needs a real control plane cannot run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// A sentence for the person who reads the test output.
    pub reason: String,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Skip {}

impl Skip {
    /// Prints that `test` was skipped, past the test harness, which hides the output of passing tests.
    pub fn announce(&self, test: &str) {
        static SKIPPED: AtomicUsize = AtomicUsize::new(0);
        let so_far = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("SKIPPED {test}: {} ({so_far} skipped in this binary)\n", self.reason);
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
}

/// A folder with control plane binaries, laid out as envtest expects them.
#[derive(Debug, Clone)]
pub struct Assets {
    dir: PathBuf,
}

impl Assets {
    /// The folder to use: `KUBEBUILDER_ASSETS`, else `FLYBALL_ASSETS_DIR`, else the user's cache.
    pub fn folder() -> PathBuf {
        for var in ["KUBEBUILDER_ASSETS", "FLYBALL_ASSETS_DIR"] {
            if let Some(dir) = std::env::var_os(var).filter(|v| !v.is_empty()) {
                return PathBuf::from(dir);
            }
        }
        Self::cache("controlplane")
    }

    /// A folder of the user's cache for this version and platform.
    pub fn cache(what: &str) -> PathBuf {
        cache_root().join("flyball").join(what).join(platform_folder())
    }

    /// The binaries that a cluster needs, or the reason why there is none.
    pub fn find() -> Result<Self, Skip> {
        Self::in_folder(Self::folder())
    }

    fn in_folder(dir: PathBuf) -> Result<Self, Skip> {
        let missing: Vec<&str> =
            ["etcd", "kube-apiserver"].into_iter().filter(|name| !dir.join(name).is_file()).collect();
        if missing.is_empty() {
            return Ok(Self { dir });
        }
        let reason = format!(
            "no {} in {}; run `cargo xtask assets` or set KUBEBUILDER_ASSETS",
            missing.join(" and no "),
            dir.display()
        );
        Err(Skip { reason })
    }

    /// The path of one binary, whether it exists or not.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Upstream's controller manager, if the folder has it (envtest's own assets do not).
    pub fn upstream_manager(&self) -> Result<PathBuf, Skip> {
        self.upstream("kube-controller-manager")
    }

    /// Upstream's cloud-controller-manager, if the folder has it.
    pub fn upstream_cloud_manager(&self) -> Result<PathBuf, Skip> {
        self.upstream(CLOUD_CONTROLLER_MANAGER)
    }

    fn upstream(&self, name: &str) -> Result<PathBuf, Skip> {
        let path = self.binary(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(Skip { reason: format!("no {name} in {}; run `cargo xtask assets`", self.dir.display()) })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn cache_root() -> PathBuf {
    let set = |var: &str| std::env::var_os(var).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .filter(|dir| dir.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
}

fn platform_folder() -> String {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{KUBERNETES_VERSION}-{}-{arch}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_binaries_says_what_is_missing_and_how_to_get_it() {
        let dir = tempfile::tempdir().unwrap();
        let skip = Assets::in_folder(dir.path().to_owned()).unwrap_err();
        assert!(skip.reason.starts_with("no etcd and no kube-apiserver in "), "{skip}");
        assert!(skip.reason.contains("cargo xtask assets"), "{skip}");
    }

    #[test]
    fn envtest_assets_do_without_a_controller_manager() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let assets = Assets::in_folder(dir.path().to_owned()).unwrap();
        assert!(assets.upstream_manager().is_err());
    }
}
