//! Builds programs from Go modules that a folder of `tools` pins, and remembers what they were built from.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::KUBERNETES_VERSION;

/// The commit of the release, for `--version`; a module build does not know it.
const KUBERNETES_COMMIT: &str = "bb826b1d48562f110659e64e8ec444327433db95";

/// A program to build.
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    pub(crate) package: &'a str,
    /// The folder with the `go.mod`.
    pub(crate) module: &'a Path,
    /// What it is built from; a program with another stamp is built again.
    pub(crate) stamp: &'a str,
    /// Whether it is the test binary of its package.
    pub(crate) is_test: bool,
    /// Whether it prints Kubernetes' version.
    pub(crate) has_kubernetes_version: bool,
}

impl Program<'_> {
    pub(crate) fn is_built(&self, folder: &Path) -> bool {
        folder.join(self.name).is_file()
            && std::fs::read_to_string(stamp_file(folder, self.name))
                .is_ok_and(|built| built.trim() == self.stamp)
    }

    fn build(&self, folder: &Path) -> anyhow::Result<()> {
        // Built beside its place and then moved, so that an interrupted build leaves no half a binary.
        let unfinished = folder.join(format!(".{}.unfinished", self.name));
        let verb: &[&str] = if self.is_test { &["test", "-c", "-vet=off"] } else { &["build"] };
        let status = Command::new("go")
            .current_dir(self.module)
            .env("CGO_ENABLED", "0")
            // Inherited settings could make the build refuse its go.sum or look for a version control system.
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .env("GOWORK", "off")
            .args(verb)
            .args(["-trimpath", "-ldflags", &self.linker_flags(), "-o"])
            .arg(&unfinished)
            .arg(self.package)
            .status()
            .context("run go build")?;
        if !status.success() {
            bail!("go {} {} ended with {status}", verb.join(" "), self.package);
        }
        let place = folder.join(self.name);
        std::fs::rename(&unfinished, &place)
            .with_context(|| format!("move {} to {}", self.name, place.display()))?;
        let file = stamp_file(folder, self.name);
        std::fs::write(&file, self.stamp).with_context(|| format!("write {}", file.display()))
    }

    /// Stripped, and with the version that the release build would write into the binaries.
    fn linker_flags(&self) -> String {
        let mut flags = "-s -w".to_owned();
        if !self.has_kubernetes_version {
            return flags;
        }
        let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
            for (variable, value) in [
                ("gitVersion", KUBERNETES_VERSION),
                ("gitMajor", major),
                ("gitMinor", minor),
                ("gitTreeState", "clean"),
                ("gitCommit", KUBERNETES_COMMIT),
            ] {
                flags.push_str(&format!(" -X {package}.{variable}={value}"));
            }
        }
        flags
    }
}

pub(crate) fn stamp_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.built-from"))
}

/// Whether there is a Go toolchain.
pub(crate) fn is_installed() -> bool {
    let found = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Builds each of the programs into the folder.
pub(crate) fn build(programs: &[Program<'_>], folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for (index, program) in programs.iter().enumerate() {
        let start = Instant::now();
        let position = format!("[{}/{}] {}", index + 1, programs.len(), program.name);
        println!("{position} ({}) …", program.stamp);
        program.build(folder)?;
        println!("{position} in {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The version of a module that a go.mod pins.
pub(crate) fn pinned(module: &Path, package: &str) -> anyhow::Result<String> {
    let path = module.join("go.mod");
    let pins = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let mut words = pins.lines().map(str::split_whitespace).filter_map(|mut words| {
        let first = words.next()?;
        let first = if first == "require" { words.next()? } else { first };
        (first == package).then(|| words.next()).flatten()
    });
    words.next().map(str::to_owned).with_context(|| format!("{} does not pin {package}", path.display()))
}

/// The folder in which Go keeps the source of a module.
pub(crate) fn source(module: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("go")
        .current_dir(module)
        .args(["list", "-m", "-f", "{{.Dir}}", package])
        .output()
        .context("run go list")?;
    if !output.status.success() {
        bail!("go list -m {package}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Identifies the source files in a folder.
pub(crate) fn digest(folder: &Path) -> anyhow::Result<String> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(&file).with_context(|| format!("read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
