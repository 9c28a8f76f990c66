//! `flyball list`: the clusters of this machine, each asked itself.

use std::path::PathBuf;

use flyball_api::Timestamp;
use flyball_apiserver::registry::human_duration;
use flyball_runtime::Clock;
use serde::{Deserialize, Serialize};

use super::channel::{self, Reached, Request};
use super::{Name, Place, claim};
use crate::args::{self, ListOutput};
use crate::lines::say;

/// What a cluster says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) name: Name,
    pub(crate) state: Stage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// By the machine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data_dir: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    /// The memory of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    Starting,
    Running,
    /// It was stopped in order, and its data are kept.
    Stopped,
    /// Its process ended without stopping in order.
    Killed,
    /// Its process is there and does not answer.
    NotAnswering,
}

impl Stage {
    fn text(self) -> &'static str {
        match self {
            Stage::Starting => "starting",
            Stage::Running => "running",
            Stage::Stopped => "stopped",
            Stage::Killed => "killed",
            Stage::NotAnswering => "not answering",
        }
    }
}

pub(crate) async fn run(args: &args::List) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for name in super::all()? {
        found.extend(status(&name).await?);
    }
    match args.output {
        ListOutput::Json => say!("{}", serde_json::to_string_pretty(&found)?),
        ListOutput::Name => found.iter().for_each(|status| say!("{}", status.name)),
        ListOutput::Text if found.is_empty() => {
            say!("There is no cluster; `flyball up --detach` starts one.");
        }
        ListOutput::Text => table(&found, Clock::system().now()),
    }
    Ok(())
}

/// What is known about a cluster; nothing if it has just gone.
pub(crate) async fn status(name: &Name) -> anyhow::Result<Option<Status>> {
    let place = Place::of(name)?;
    let (reached, state) = (channel::reach(&place.socket()).await?, place.state());
    let unreached = |stage| Status {
        name: name.clone(),
        state: stage,
        pid: claim::holder(place.folder()).filter(|_| stage == Stage::NotAnswering),
        started: None,
        server: None,
        kubeconfig: state.as_ref().map(|state| state.kubeconfig.clone()),
        data_dir: state.as_ref().and_then(|state| state.data_dir.clone()),
        log: state.as_ref().and_then(|state| state.log.clone()),
        nodes: None,
        memory_bytes: None,
    };
    Ok(match (reached, &state) {
        (Reached::Yes(mut connection), _) => {
            let answer = connection.request_soon::<Status>(&Request::Status {}).await;
            Some(answer.unwrap_or_else(|_| unreached(Stage::NotAnswering)))
        }
        (Reached::No, Some(state)) if state.stopped => Some(unreached(Stage::Stopped)),
        (Reached::No, Some(_)) => Some(unreached(Stage::Killed)),
        (Reached::No, None) => None,
    })
}

fn table(found: &[Status], now: Timestamp) {
    let wide = found.iter().map(|status| status.name.as_str().len()).max().unwrap_or_default().max(8);
    say!("{:<wide$}  {:<14} {:<6} {:<28} {:<6} MEMORY", "NAME", "STATE", "AGE", "ADDRESS", "NODES");
    for status in found {
        let dash = || "-".to_owned();
        let age = |started: Timestamp| human_duration(now.as_second() - started.as_second());
        let age = status.started.map_or_else(dash, age);
        let nodes = status.nodes.map_or_else(dash, |nodes| nodes.to_string());
        let memory = status.memory_bytes.map_or_else(dash, |bytes| format!("{} MB", bytes / 1_000_000));
        let address = status.server.clone().unwrap_or_else(dash);
        let (name, state) = (status.name.as_str(), status.state.text());
        say!("{name:<wide$}  {state:<14} {age:<6} {address:<28} {nodes:<6} {memory}");
    }
}

/// The memory of this process, where the system says it.
pub(crate) fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
