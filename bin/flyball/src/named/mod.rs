//! Clusters by name: where each keeps its files, who holds a name, and what is known about the others.
//!
//! `~/.flyball/clusters/NAME/` belongs to the process that holds the lock in it. The system releases a lock when its process ends,
//! however it ends, so what a killed cluster has left is never mistaken for a running one.

pub(crate) mod channel;
pub(crate) mod claim;
pub(crate) mod detach;
pub(crate) mod down;
pub(crate) mod host;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod page;
mod yaml;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use flyball_api::Timestamp;
use serde::{Deserialize, Serialize};

use channel::{Connection, Reached};

/// The folder for everything that `flyball` keeps, instead of `~/.flyball`.
pub(crate) const HOME: &str = "FLYBALL_HOME";
/// The name of a cluster that is given none.
pub(crate) const DEFAULT: &str = "flyball";
/// Longer names would make the path of the socket longer than the system allows.
const LONGEST: usize = 40;

const STATE: &str = "state.json";
const SOCKET: &str = "socket";
const LOG: &str = "log";
const KUBECONFIG: &str = "kubeconfig";

/// The name of a cluster: a DNS label, since it becomes a part of the names in kubeconfigs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(String);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_default(&self) -> bool {
        self.0 == DEFAULT
    }

    /// The name of its context, cluster and user in kubeconfigs.
    pub(crate) fn context(&self) -> String {
        format!("flyball-{}", self.0)
    }

    /// The n-th alternative to this name.
    fn numbered(&self, n: u32) -> Self {
        Self(format!("{}-{n}", self.0))
    }
}

impl Default for Name {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_label = text.chars().all(|c| is_inner(c) || c == '-')
            && text.starts_with(is_inner)
            && text.ends_with(is_inner);
        match is_label && text.len() <= LONGEST {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "a name has at most {LONGEST} lower-case letters, digits and `-`, and begins and ends with a letter or digit"
            )),
        }
    }
}

/// `~/.flyball`, or what [`HOME`] says.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(HOME).filter(|folder| !folder.is_empty()) {
        return std::path::absolute(&folder).with_context(|| format!("{HOME}={}", folder.display()));
    }
    match std::env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(".flyball")),
        None => bail!("there is no home directory for what flyball keeps; name a folder in {HOME}"),
    }
}

/// The files of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Place {
    pub(crate) fn of(name: &Name) -> anyhow::Result<Self> {
        Ok(Self::under(&home()?, name))
    }

    fn under(home: &Path, name: &Name) -> Self {
        let folder = home.join("clusters").join(name.as_str());
        // Where the only cluster had it before clusters had names.
        let kubeconfig = if name.is_default() { home.join(KUBECONFIG) } else { folder.join(KUBECONFIG) };
        Self { folder, kubeconfig }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kubeconfig with nothing but this cluster.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// What a cluster in the background prints.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// What the cluster's process wrote down when it was ready. Nothing if there is none, or none that can be read.
    pub(crate) fn state(&self) -> Option<State> {
        let text = std::fs::read_to_string(self.folder.join(STATE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn write_state(&self, state: &State) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(state)?;
        crate::place::write_private(&self.folder.join(STATE), &text)
    }
}

/// What others may know about a cluster without asking its process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) name: Name,
    pub(crate) pid: u32,
    /// By the machine's clock.
    pub(crate) started: Timestamp,
    pub(crate) server: Option<String>,
    /// The kubeconfig for its users.
    pub(crate) kubeconfig: PathBuf,
    /// Where its context was added, if anywhere.
    #[serde(default)]
    pub(crate) merged: Vec<PathBuf>,
    #[serde(default)]
    pub(crate) data_dir: Option<PathBuf>,
    #[serde(default)]
    pub(crate) log: Option<PathBuf>,
    /// It was stopped in order, and its data are kept.
    #[serde(default)]
    pub(crate) stopped: bool,
}

/// The names of all clusters of which something is kept.
pub(crate) fn all() -> anyhow::Result<Vec<Name>> {
    let folder = home()?.join("clusters");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", folder.display())),
    };
    let mut names: Vec<Name> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Which cluster a command means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    One(Name),
    /// None was named, and of those that run none is the default.
    OneOf(Vec<Name>),
}

/// The cluster with this name; without one, the default cluster or, if that does not run, the only one that does.
pub(crate) async fn select(name: Option<&Name>) -> anyhow::Result<Selection> {
    if let Some(name) = name {
        return match Place::of(name)?.state() {
            Some(_) => Ok(Selection::One(name.clone())),
            None => bail!("{}", unknown(name)?),
        };
    }
    let mut running = Vec::new();
    for name in all()? {
        if let Reached::Yes(_) = channel::reach(&Place::of(&name)?.socket()).await? {
            running.push(name);
        }
    }
    Ok(match running.iter().position(Name::is_default) {
        Some(default) => Selection::One(running.swap_remove(default)),
        None if running.len() == 1 => Selection::One(running.swap_remove(0)),
        None => Selection::OneOf(running),
    })
}

impl Selection {
    /// The one, or an error that says what to name.
    fn one(self) -> anyhow::Result<Name> {
        match self {
            Selection::One(name) => Ok(name),
            Selection::OneOf(running) if running.is_empty() => {
                bail!("no cluster runs: start one with `flyball up`, or name a kubeconfig with --kubeconfig")
            }
            Selection::OneOf(running) => {
                let names: Vec<&str> = running.iter().map(Name::as_str).collect();
                bail!("several clusters run ({}); say which one with --name", names.join(", "))
            }
        }
    }
}

/// The kubeconfig of the cluster that [`select`] finds.
pub(crate) async fn kubeconfig_of(name: Option<&Name>) -> anyhow::Result<PathBuf> {
    let place = Place::of(&select(name).await?.one()?)?;
    Ok(place.state().map_or_else(|| place.kubeconfig().to_owned(), |state| state.kubeconfig))
}

/// The cluster that [`select`] finds and a connection to its process.
pub(crate) async fn running(name: Option<&Name>) -> anyhow::Result<(Name, Connection)> {
    let name = select(name).await?.one()?;
    match channel::reach(&Place::of(&name)?.socket()).await? {
        Reached::Yes(connection) => Ok((name, connection)),
        Reached::No => {
            bail!("the cluster {:?} does not run; start it with `flyball up{}`", name.as_str(), option(&name))
        }
    }
}

/// The text of an error about a name that no cluster has.
pub(crate) fn unknown(name: &Name) -> anyhow::Result<String> {
    let others = all()?;
    if others.contains(name) {
        return Ok(format!("the cluster {:?} is just starting or ending; try again", name.as_str()));
    }
    let hint = match others.is_empty() {
        true => format!("start it with `flyball up{}`", option(name)),
        false => {
            let names: Vec<&str> = others.iter().map(Name::as_str).collect();
            format!("there {}: {}", if names.len() == 1 { "is" } else { "are" }, names.join(", "))
        }
    };
    Ok(format!("there is no cluster {:?}; {hint}", name.as_str()))
}

/// The option that names a cluster on the command line; nothing for the default.
pub(crate) fn option(name: &Name) -> String {
    if name.is_default() { String::new() } else { format!(" --name {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "dev-2", "0", &"x".repeat(40)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "..", "ä", &"x".repeat(41)] {
            assert!(bad.parse::<Name>().unwrap_err().contains("lower-case letters"), "{bad}");
        }
        assert!(serde_json::from_str::<Name>("\"../x\"").is_err(), "nor does a file get another one in");
    }

    #[test]
    fn only_the_default_cluster_has_its_kubeconfig_where_it_always_was() {
        let home = Path::new("/h");
        assert_eq!(Place::under(home, &Name::default()).kubeconfig(), Path::new("/h/kubeconfig"));
        let other = Place::under(home, &"a".parse().unwrap());
        assert_eq!(other.kubeconfig(), Path::new("/h/clusters/a/kubeconfig"));
    }
}
