//! Builds the real control plane from its Go modules, as `tools/controlplane` pins them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use flyball_sim::cluster::{Assets, BINARIES, CLOUD_CONTROLLER_MANAGER, KUBERNETES_VERSION};

use crate::go::{self, Program, stamp_file};

/// `cargo xtask assets`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rebuild binaries that exist
    #[arg(long)]
    force: bool,
}

const ETCD_PACKAGE: &str = "go.etcd.io/etcd/server/v3";

/// The folder with the control plane's go.mod.
pub(crate) fn module() -> PathBuf {
    crate::root().join("tools/controlplane")
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    println!("export KUBEBUILDER_ASSETS={}", provide(options.force)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds what is missing. Returns the folder.
pub(crate) fn provide(force: bool) -> anyhow::Result<PathBuf> {
    let folder = Assets::folder();
    let module = module();
    let pinned = stamp(&module)?;
    let cloud = format!("{pinned}, {}", go::digest(&module.join("cloud"))?);
    let packages = BINARIES.map(|name| (name, package(name)));
    let programs = packages.iter().map(|(name, package)| Program {
        name,
        package,
        module: &module,
        stamp: if *name == CLOUD_CONTROLLER_MANAGER { &cloud } else { &pinned },
        is_test: false,
        has_kubernetes_version: *name != "etcd",
    });
    let missing: Vec<Program<'_>> = programs.filter(|program| force || !program.is_built(&folder)).collect();
    if missing.is_empty() {
        println!("The control plane {KUBERNETES_VERSION} exists already.");
    } else if is_foreign(&folder) && !force {
        // The user's own binaries (envtest's, a distribution's) are used as they are.
        println!("Using the binaries in {} as they are.", folder.display());
        report_foreign(&folder);
    } else {
        check_go(&folder)?;
        println!("Building the control plane into {}; the first time takes some minutes.", folder.display());
        go::build(&missing, &folder)?;
    }
    Ok(folder)
}

fn package(name: &str) -> String {
    match name {
        "etcd" => ETCD_PACKAGE.to_owned(),
        CLOUD_CONTROLLER_MANAGER => "./cloud".to_owned(),
        other => format!("k8s.io/kubernetes/cmd/{other}"),
    }
}

/// Identifies what the binaries are built from: changes when a pinned version does.
fn stamp(module: &Path) -> anyhow::Result<String> {
    let kubernetes = go::pinned(module, "k8s.io/kubernetes")?;
    if kubernetes != KUBERNETES_VERSION {
        bail!(
            "{} pins Kubernetes {kubernetes}, but this project stands in for {KUBERNETES_VERSION}",
            module.join("go.mod").display()
        );
    }
    Ok(format!("kubernetes {kubernetes}, etcd {}", go::pinned(module, ETCD_PACKAGE)?))
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

fn check_go(folder: &Path) -> anyhow::Result<()> {
    if go::is_installed() {
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
