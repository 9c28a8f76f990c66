//! Runs this program again in namespaces of its own. When it ends, for whatever reason, the kernel ends every process in them
//! and removes their mounts and networks; only cgroups and settings of the kernel are left to tidy up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::images::find;

const CGROUPS: &str = "/sys/fs/cgroup";

/// The first process of the namespaces: a shell, since it reaps orphans while it waits.
const FIRST_PROCESS: &str = r#"exec 3<&0; "$@" <&3 3<&- & wait $!"#;

/// Settings of the whole machine that a kubelet changes.
const SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Why a rig cannot run here, if it cannot.
pub(crate) fn lacks() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("it needs Linux".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root: it creates namespaces, cgroups and containers".to_owned());
    }
    if !crate::go::is_installed() {
        return Some(
            "it needs Go to build a kubelet, containerd and the tests (https://go.dev/dl)".to_owned(),
        );
    }
    const TOOLS: [&str; 9] =
        ["busybox", "conntrack", "ip", "iptables", "nft", "nsenter", "runc", "tar", "unshare"];
    let missing: Vec<&str> = TOOLS.into_iter().filter(|tool| find(tool).is_none()).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "no {} in PATH; on Debian: apt-get install busybox conntrack iproute2 iptables nftables runc",
            missing.join(", no ")
        )
    })
}

/// Runs `cargo xtask` with these arguments in new namespaces. Its logs replace those of an earlier run in the folder.
/// Interrupted, it ends the namespaces and fails.
pub(crate) async fn run(args: &[OsString], folder: &Path) -> anyhow::Result<ExitStatus> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let settings = Settings::read();
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut child = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", FIRST_PROCESS, "rig"])
        .arg(std::env::current_exe().context("find this program")?)
        .args(args)
        .env("TMPDIR", folder)
        // When this process ends, the rig gets the end of its input.
        .stdin(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("run unshare")?;
    let input = child.stdin.take();
    let status = tokio::select! {
        status = child.wait() => Some(status.context("wait for the rig")?),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    drop(input);
    if status.is_none() {
        child.kill().await.context("end the rig")?;
    }
    remove_cgroups(Path::new(CGROUPS), &cgroup());
    settings.restore();
    remove_data(folder);
    match status {
        Some(status) => Ok(status),
        None => bail!("interrupted"),
    }
}

/// The cgroup of the rig that this process, or its parent outside of the namespaces, runs.
pub(crate) fn cgroup() -> String {
    format!("/flyball-rig-{}", std::process::id())
}

/// Ends this process, and with it the rig, when the process that started it is gone.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// Creates the cgroup in which a kubelet creates those of its pods. There must be one in every hierarchy.
pub(crate) fn create_cgroup(name: &str) -> anyhow::Result<()> {
    let root = Path::new(CGROUPS);
    let is_unified = root.join("cgroup.controllers").is_file();
    for hierarchy in if is_unified { vec![root.to_owned()] } else { hierarchies(root)? } {
        let mut parent = hierarchy;
        for part in name.split('/').filter(|part| !part.is_empty()) {
            if is_unified {
                // Refused for controllers that the machine does not have.
                for controller in ["cpu", "cpuset", "memory", "pids", "io"] {
                    let _ = std::fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
                }
            }
            let child = parent.join(part);
            std::fs::create_dir_all(&child).with_context(|| format!("create {}", child.display()))?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let (false, Ok(value)) = (is_unified, std::fs::read(parent.join(file))) {
                    std::fs::write(child.join(file), value)
                        .with_context(|| format!("write {file} of {}", child.display()))?;
                }
            }
            parent = child;
        }
    }
    Ok(())
}

/// The hierarchies of cgroup v1.
fn hierarchies(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(root).with_context(|| format!("read {}", root.display()))?;
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
    // A hybrid machine has an empty cgroup v2 hierarchy beside the others.
    Ok(folders.map(|entry| entry.path()).filter(|path| !path.join("cgroup.controllers").is_file()).collect())
}

fn remove_cgroups(root: &Path, name: &str) {
    let name = name.trim_start_matches('/');
    let mut roots = vec![root.join(name)];
    let entries = std::fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    roots.extend(entries.map(|entry| entry.path().join(name)));
    // Killed processes leave their cgroups with a delay.
    for _ in 0..50 {
        roots.retain(|root| root.is_dir());
        roots.iter().for_each(|root| remove_tree(root));
        if roots.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    eprintln!("cgroups are left behind: {roots:?}");
}

/// Removes a cgroup and those in it; its files go with it.
fn remove_tree(cgroup: &Path) {
    for entry in std::fs::read_dir(cgroup).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(cgroup);
}

/// Removes everything but logs and reports.
fn remove_data(folder: &Path) {
    for cluster in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        for entry in std::fs::read_dir(cluster.path()).into_iter().flatten().filter_map(Result::ok) {
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            let is_kept = entry.path().extension().is_some_and(|kind| kind == "log" || kind == "json");
            match is_dir {
                true => drop(std::fs::remove_dir_all(entry.path())),
                false if is_kept => {}
                false => drop(std::fs::remove_file(entry.path())),
            }
        }
    }
}

struct Settings(Vec<(PathBuf, Vec<u8>)>);

impl Settings {
    fn read() -> Self {
        let paths = SETTINGS.map(|setting| Path::new("/proc/sys").join(setting));
        Self(paths.into_iter().filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect())
    }

    fn restore(&self) {
        for (path, value) in &self.0 {
            if std::fs::read(path).ok().as_ref() != Some(value) && std::fs::write(path, value).is_err() {
                eprintln!("could not restore {}", path.display());
            }
        }
    }
}
