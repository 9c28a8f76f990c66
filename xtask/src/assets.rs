//! Builds the real control plane from its Go modules, as `tools/controlplane` pins them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::{Assets, BINARIES, CLOUD_CONTROLLER_MANAGER, KUBERNETES_VERSION};

/// `cargo xtask assets`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rebuild binaries that exist
    #[arg(long)]
    force: bool,
}

const ETCD_PACKAGE: &str = "go.etcd.io/etcd/server/v3";
/// The commit of the release, for `--version`; a module build does not know it.
const KUBERNETES_COMMIT: &str = "bb826b1d48562f110659e64e8ec444327433db95";

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = Assets::folder();
    let module = crate::root().join("tools/controlplane");
    let pinned = stamp(&module)?;
    let cloud = format!("{pinned}, {}", digest(&module.join("cloud"))?);
    let stamps = BINARIES.map(|name| (name, if name == CLOUD_CONTROLLER_MANAGER { &cloud } else { &pinned }));
    let missing: Vec<(&str, &String)> =
        stamps.into_iter().filter(|(name, stamp)| options.force || !is_built(&folder, name, stamp)).collect();
    if missing.is_empty() {
        println!("The control plane {KUBERNETES_VERSION} exists already.");
    } else if is_foreign(&folder) && !options.force {
        // The user's own binaries (envtest's, a distribution's) are used as they are.
        println!("Using the binaries in {} as they are.", folder.display());
        report_foreign(&folder);
    } else {
        build(&missing, &folder, &module)?;
    }
    println!("export KUBEBUILDER_ASSETS={}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Identifies what the binaries are built from: changes when a pinned version does.
fn stamp(module: &Path) -> anyhow::Result<String> {
    let path = module.join("go.mod");
    let pins = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let version = |package: &str| {
        let mut words = pins.lines().map(str::split_whitespace).filter_map(|mut words| {
            let first = words.next()?;
            let first = if first == "require" { words.next()? } else { first };
            (first == package).then(|| words.next()).flatten()
        });
        words.next().map(str::to_owned).with_context(|| format!("{} does not pin {package}", path.display()))
    };
    let kubernetes = version("k8s.io/kubernetes")?;
    if kubernetes != KUBERNETES_VERSION {
        bail!(
            "{} pins Kubernetes {kubernetes}, but this project stands in for {KUBERNETES_VERSION}",
            path.display()
        );
    }
    Ok(format!("kubernetes {kubernetes}, etcd {}", version(ETCD_PACKAGE)?))
}

/// Identifies the source files in a folder.
fn digest(folder: &Path) -> anyhow::Result<String> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(&file).with_context(|| format!("read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn stamp_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.built-from"))
}

fn is_built(folder: &Path, name: &str, stamp: &str) -> bool {
    folder.join(name).is_file()
        && std::fs::read_to_string(stamp_file(folder, name)).is_ok_and(|built| built.trim() == stamp)
}

/// A folder that the user named, with binaries that were not built here.
fn is_foreign(folder: &Path) -> bool {
    std::env::var_os("KUBEBUILDER_ASSETS").is_some_and(|named| Path::new(&named) == folder)
        && BINARIES.iter().any(|name| folder.join(name).is_file())
        && !BINARIES.iter().any(|name| stamp_file(folder, name).is_file())
}

fn report_foreign(folder: &Path) {
    for name in BINARIES {
        if !folder.join(name).is_file() {
            println!("  {name}: missing; tests that need it will be skipped");
        }
    }
    println!("  (`--force` builds {KUBERNETES_VERSION} over them.)");
}

fn build(missing: &[(&str, &String)], folder: &Path, module: &Path) -> anyhow::Result<()> {
    check_go(folder)?;
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    println!("Building the control plane into {}; the first time takes some minutes.", folder.display());
    for (index, (name, stamp)) in missing.iter().enumerate() {
        let start = Instant::now();
        println!("[{}/{}] {name} ({stamp}) …", index + 1, missing.len());
        build_one(name, folder, module)?;
        let file = stamp_file(folder, name);
        std::fs::write(&file, stamp).with_context(|| format!("write {}", file.display()))?;
        println!("[{}/{}] {name} in {:.0} s", index + 1, missing.len(), start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn check_go(folder: &Path) -> anyhow::Result<()> {
    let found = Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    bail!(
        "Go is needed to build the control plane, and there is no `go` in PATH.\n\
         Install it (https://go.dev/dl, 1.26 or newer), or put {} of Kubernetes {KUBERNETES_VERSION} and etcd 3.6\n\
         into {} by hand, or set KUBEBUILDER_ASSETS to a folder that has them (as `setup-envtest` makes it).",
        BINARIES.join(", "),
        folder.display()
    )
}

fn build_one(name: &str, folder: &Path, module: &Path) -> anyhow::Result<()> {
    let package = match name {
        "etcd" => ETCD_PACKAGE.to_owned(),
        CLOUD_CONTROLLER_MANAGER => "./cloud".to_owned(),
        other => format!("k8s.io/kubernetes/cmd/{other}"),
    };
    // Built beside its place and then moved, so that an interrupted build leaves no half a binary.
    let unfinished = folder.join(format!(".{name}.unfinished"));
    let status = Command::new("go")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        // Inherited settings could make the build refuse its go.sum or look for a version control system.
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOWORK", "off")
        .args(["build", "-trimpath", "-ldflags", &linker_flags(name), "-o"])
        .arg(&unfinished)
        .arg(&package)
        .status()
        .context("run go build")?;
    if !status.success() {
        bail!("go build {package} ended with {status}");
    }
    let place = folder.join(name);
    std::fs::rename(&unfinished, &place).with_context(|| format!("move {name} to {}", place.display()))
}

/// Stripped, and with the version that the release build would write into the binaries.
fn linker_flags(name: &str) -> String {
    if name == "etcd" {
        return "-s -w".to_owned();
    }
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let mut flags = "-s -w".to_owned();
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
