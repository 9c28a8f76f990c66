//! `flyball assets DIR`: a folder that controller-runtime's envtest takes for its binaries (`KUBEBUILDER_ASSETS`). Its
//! programs are scripts that call this one, so what a suite runs on can be read in them.

mod etcd;
mod flags;
mod kubectl;
mod server;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args as Group, Subcommand};

use crate::lines::say;

/// Replaces the controllers that the folder was made with, for one run.
pub(crate) const CONTROLLERS: &str = "FLYBALL_CONTROLLERS";
/// The same for the number of nodes.
pub(crate) const NODES: &str = "FLYBALL_NODES";
/// How every script begins.
const HEAD: &str = "#!/bin/sh\n# Written by `flyball assets`.\n";
/// The nodes of a cluster with controllers.
const USUAL_NODES: u16 = 3;

#[derive(Debug, Group)]
pub(crate) struct Assets {
    /// The folder for `etcd`, `kube-apiserver` and `kubectl`; it is created, other files in it are kept.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) beside: Beside,
}

/// What runs beside the API server.
#[derive(Debug, Clone, Group)]
pub(crate) struct Beside {
    /// Controllers that run in the API server's process, in the syntax of kube-controller-manager's --controllers. Without
    /// any, as with envtest's own binaries, objects stay as a test writes them; with `*`, Deployments have pods.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "none",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    pub(crate) controllers: Vec<String>,
    /// Number of simulated nodes [default: 3 with controllers, 0 without].
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: Option<u16>,
}

impl Beside {
    /// The choice for this run: that of the folder, unless the environment has another.
    fn for_this_run(self, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let controllers = match variable(CONTROLLERS) {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).collect(),
            None => self.controllers,
        };
        let nodes = match variable(NODES) {
            Some(text) => Some(text.parse().with_context(|| format!("{NODES}={text}"))?),
            None => self.nodes,
        };
        Ok(Self { controllers, nodes })
    }

    /// Whether only the API server runs.
    fn is_bare(&self) -> bool {
        let none = self.controllers.iter().all(|name| name.is_empty() || name == "none");
        none && self.nodes.unwrap_or_default() == 0
    }

    fn node_count(&self) -> u16 {
        self.nodes.unwrap_or(USUAL_NODES)
    }

    /// The list for the controller manager.
    fn list(&self) -> Vec<String> {
        match self.controllers.iter().any(|name| name == "none") {
            true => Vec::new(),
            false => self.controllers.clone(),
        }
    }
}

/// What a script in the folder runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Answers health checks.
    Etcd(Arguments),
    /// The embedded API server.
    KubeApiserver {
        #[command(flatten)]
        beside: Beside,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// The kubectl of `PATH`.
    Kubectl(Arguments),
}

#[derive(Debug, Clone, Group)]
pub(crate) struct Arguments {
    /// The arguments of the program, after `--`.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) given: Vec<String>,
}

/// Writes the folder.
pub(crate) fn make(args: &Assets) -> anyhow::Result<()> {
    let flyball = std::env::current_exe().context("find this program's file")?;
    let folder = std::path::absolute(&args.folder).context("find the folder")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let mut beside = format!("--controllers={}", quoted(&args.beside.controllers.join(",")));
    if let Some(nodes) = args.beside.nodes {
        beside.push_str(&format!(" --nodes={nodes}"));
    }
    for (name, options) in [("etcd", ""), ("kube-apiserver", beside.as_str()), ("kubectl", "")] {
        let program = quoted(&flyball.display().to_string());
        let space = if options.is_empty() { "" } else { " " };
        let text = format!("{HEAD}exec {program} asset {name} {options}{space}-- \"$@\"\n");
        write_program(&folder.join(name), &text)?;
    }
    let shown = folder.display();
    let how = match args.beside.is_bare() {
        true => {
            format!("No controllers run, as with envtest's own binaries; with {CONTROLLERS}='*' they do.\n")
        }
        false => format!("Controllers run; with {CONTROLLERS}=none they do not.\n"),
    };
    say!("{how}\nTry:\n  export KUBEBUILDER_ASSETS={shown}\n  go test ./...");
    Ok(())
}

/// Whether `flyball assets` has written a program.
fn is_ours(text: &[u8]) -> bool {
    text.starts_with(HEAD.as_bytes())
}

/// Replaces a program in one step, unless it is one that we have not written.
fn write_program(path: &Path, text: &str) -> anyhow::Result<()> {
    if path.exists() && !std::fs::read(path).is_ok_and(|text| is_ours(&text)) {
        bail!("{} exists, and `flyball assets` has not written it; choose another folder", path.display());
    }
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        std::fs::write(&beside, text)?;
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755))?;
        std::fs::rename(&beside, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs one of the programs.
pub(crate) async fn run(program: Program) -> anyhow::Result<()> {
    match program {
        Program::Etcd(arguments) => etcd::run(&arguments.given).await,
        Program::KubeApiserver { beside, arguments } => {
            let beside = beside.for_this_run(|name| std::env::var(name).ok())?;
            server::run(&beside, &arguments.given).await
        }
        Program::Kubectl(arguments) => kubectl::run(&arguments.given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_the_folder() {
        let made = |list: &str, nodes| Beside { controllers: vec![list.to_owned()], nodes };
        #[rustfmt::skip]
        let table = [
            // made with           variables                         bare   nodes  controllers
            (made("none", None),    vec![],                          true,  3,     ""),
            (made("none", None),    vec![(CONTROLLERS, "*,-job-controller")], false, 3, "*,-job-controller"),
            (made("*", Some(7)),    vec![],                          false, 7,     "*"),
            (made("*", None),       vec![(CONTROLLERS, "none")],     true,  3,     ""),
            (made("*", None),       vec![(CONTROLLERS, "")],         true,  3,     ""),
            (made("none", None),    vec![(NODES, "2")],              false, 2,     ""),
        ];
        for (made, variables, bare, nodes, list) in table {
            let case = format!("{made:?} {variables:?}");
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let now = made.for_this_run(variable).unwrap();
            assert_eq!(
                (now.is_bare(), now.node_count(), now.list().join(",").as_str()),
                (bare, nodes, list),
                "{case}"
            );
        }
        let odd = made("*", None).for_this_run(|name| (name == NODES).then(|| "many".to_owned()));
        assert_eq!(odd.unwrap_err().to_string(), "FLYBALL_NODES=many");
    }

    #[test]
    fn scripts_quote_what_a_shell_would_change() {
        assert_eq!(quoted("*,-it's"), r"'*,-it'\''s'");
    }

    #[test]
    fn programs_of_others_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etcd");
        std::fs::write(&path, "\x7fELF").unwrap();
        let error = write_program(&path, "x").unwrap_err().to_string();
        assert!(error.contains("choose another folder"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"\x7fELF");
    }
}
