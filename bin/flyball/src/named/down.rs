//! `flyball down`: ends a cluster in order and waits for its end, or clears away what a killed one has left.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use flyball_apiserver::store::Reserved;
use flyball_playground::cluster::MARKER;
use serde_json::Value;

use super::channel::{self, Reached, Request};
use super::claim::{Claim, Wanted, holder, wait_until_free};
use super::{Name, Place, State, merge};
use crate::args;
use crate::lines::say;

/// How long a cluster may take to end: twice what all its parts have.
const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// What `--data-dir` holds.
const DATA: [&str; 2] = [OBJECTS, "pki"];
const OBJECTS: &str = "objects";

pub(crate) async fn run(args: &args::Down) -> anyhow::Result<()> {
    if !args.all {
        let name = args.name.clone().unwrap_or_default();
        return match end(&name, args.purge).await? {
            Ended::Now => Ok(()),
            Ended::Before(state) => {
                bail!("the cluster {:?} does not run; {}", name.as_str(), kept(&name, &state))
            }
            Ended::Unknown => bail!("{}", super::unknown(&name)?),
        };
    }
    let mut failed = Vec::new();
    for name in super::all()? {
        match end(&name, args.purge).await {
            Ok(Ended::Now | Ended::Unknown) => {}
            Ok(Ended::Before(state)) => say!("{}.", sentence(&kept(&name, &state))),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// How a cluster has come to its end.
enum Ended {
    /// By this command, or it has just done so by itself.
    Now,
    /// It was stopped earlier, and has data.
    Before(State),
    /// There is none of that name.
    Unknown,
}

async fn end(name: &Name, purge: bool) -> anyhow::Result<Ended> {
    let place = Place::of(name)?;
    let state = place.state();
    if let Reached::Yes(mut connection) = channel::reach(&place.socket()).await? {
        connection
            .request_soon::<Value>(&Request::Stop {})
            .await
            .with_context(|| format!("the cluster {:?} does not answer{}", name.as_str(), process(&place)))?;
        wait(&place).await?;
        say!("The cluster {:?} has stopped.", name.as_str());
    } else if !place.folder().exists() {
        return Ok(Ended::Unknown);
    } else if Claim::try_take(&super::home()?, name)?.is_none() {
        // It is there and does not answer, as when it ends.
        wait(&place).await?;
        say!("The cluster {:?} has stopped.", name.as_str());
    } else {
        match state {
            Some(state) if state.stopped && !purge => return Ok(Ended::Before(state)),
            Some(state) if state.stopped => {}
            // What it has left without a state is gone with the claim.
            None => {
                say!("The cluster {:?} was killed while it started; what it left is removed.", name.as_str())
            }
            Some(state) => {
                say!("The cluster {:?} did not run any more: its process was killed.", name.as_str());
                if state.data_dir.is_none() {
                    forget(name, None)?;
                    say!("What it left is removed.");
                }
            }
        }
    }
    match (place.state(), purge) {
        (Some(state), true) => forget(name, state.data_dir.as_deref())?,
        (Some(state), false) => say!("{}.", sentence(&kept(name, &state))),
        (None, _) => {}
    }
    Ok(Ended::Now)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

fn kept(name: &Name, state: &State) -> String {
    match &state.data_dir {
        Some(data) => format!(
            "its data are kept in {}; `flyball up{} --data-dir {0}` continues it, `flyball down {name} --purge` removes them",
            data.display(),
            super::option(name),
        ),
        None => "it keeps no data".to_owned(),
    }
}

/// What to do about a process that does not end. Not the one that the state names: that may be of an earlier cluster of this name.
fn process(place: &Place) -> String {
    holder(place.folder()).map(|pid| format!("; end its process with `kill {pid}`")).unwrap_or_default()
}

/// Waits until the process of a cluster has ended.
async fn wait(place: &Place) -> anyhow::Result<()> {
    let folder = place.folder().to_owned();
    let ended = tokio::task::spawn_blocking(move || wait_until_free(folder));
    match tokio::time::timeout(ENDS_WITHIN, ended).await {
        Ok(ended) => Ok(ended??),
        Err(_) => {
            let (seconds, process) = (ENDS_WITHIN.as_secs(), process(place));
            Err(anyhow!("the cluster has not ended within {seconds} s{process}"))
        }
    }
}

/// Removes everything about a cluster that does not run, and its data if it has any. Nothing is removed if another cluster uses them.
fn forget(name: &Name, data: Option<&Path>) -> anyhow::Result<()> {
    let mut claim = Claim::take(Wanted::Exactly(name))?;
    // Nobody has the name now, so this is the last that was written.
    let Some(state) = claim.place.state() else { return Ok(()) };
    if let Some(data) = data {
        remove_data(data)?;
        say!("Its data in {} are removed.", data.display());
    }
    claim.succeed();
    clear(&claim.place, &state)
}

/// Removes the credentials of a cluster that has ended.
pub(crate) fn clear(place: &Place, state: &State) -> anyhow::Result<()> {
    let _ = std::fs::remove_file(place.kubeconfig());
    for file in &state.merged {
        merge::remove(file, &state.name.context())?;
    }
    Ok(())
}

/// Removes a data directory, if it is one.
fn remove_data(folder: &Path) -> anyhow::Result<()> {
    let is_ours = DATA.iter().all(|part| folder.join(part).is_dir());
    ensure!(is_ours, "{} does not look like a data directory, so it is kept", folder.display());
    let _unused = Reserved::take(&folder.join(OBJECTS))
        .with_context(|| format!("the data in {} are kept", folder.display()))?;
    for part in DATA {
        let path = folder.join(part);
        std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    // It is not there without controllers, nor the next one if the clock was never moved.
    let _ = std::fs::remove_dir_all(folder.join(flyball_playground::cluster::JOURNAL));
    let _ = std::fs::remove_file(folder.join(flyball_playground::timeline::FILE));
    let _ = std::fs::remove_file(folder.join(MARKER));
    // Fails if there is anything else in it, which is not ours.
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use flyball_apiserver::store::{Facets, Limits, Store};

    use super::*;

    #[tokio::test]
    async fn only_a_data_directory_is_removed_and_of_it_only_what_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir_all(data.join("objects")).unwrap();
        assert!(remove_data(&data).unwrap_err().to_string().contains("does not look like a data directory"));
        std::fs::create_dir_all(data.join("pki")).unwrap();
        let store = Store::open(&data.join("objects"), Limits::default(), |_, _| Facets::default()).unwrap();
        let refused = format!("{:#}", remove_data(&data).unwrap_err());
        assert!(
            refused.contains("are kept: the data directory") && refused.contains("is in use"),
            "{refused}"
        );
        store.close().await;
        std::fs::write(data.join("notes"), "mine").unwrap();
        remove_data(&data).unwrap();
        assert!(data.join("notes").exists() && !data.join("objects").exists() && !data.join("pki").exists());
    }
}
