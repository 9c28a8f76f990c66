//! kill -9 at any time: acknowledged writes are there after a restart, and an unacknowledged one is there completely or
//! not at all.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::{Key, ResourceType, ResourceVersion};
use flyball_client::{Client, DeleteOptions, ListParams, Patch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use common::Up;

const MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const WRITERS: usize = 8;
const ROUNDS: u64 = 4;
/// A round with fewer acknowledged writes proves nothing.
const AT_LEAST: u64 = 50;
/// Larger than a page of the database, so that a torn write would be seen.
const PADDING: usize = 6000;

/// What one writer knows of its objects: their acknowledged states, and the write without an answer.
#[derive(Default)]
struct Known {
    acknowledged: BTreeMap<String, Option<u64>>,
    unanswered: Option<(String, Option<u64>)>,
    version: ResourceVersion,
}

impl Known {
    fn allows(&self, name: &str, found: Option<u64>) -> bool {
        let acknowledged = self.acknowledged.get(name).copied().flatten();
        found == acknowledged
            || self.unanswered.as_ref().is_some_and(|(other, state)| other == name && found == *state)
    }
}

fn map(name: &str, number: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"number": number.to_string(), "padding": "x".repeat(PADDING)},
    })
}

fn version_of(object: &Value) -> ResourceVersion {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Creates, changes and deletes until the server does not answer any more.
async fn write(client: Client, writer: String, acknowledged: Arc<AtomicU64>) -> Known {
    let mut known = Known::default();
    for number in 0.. {
        let name = format!("{writer}-{}", number / 3);
        let key = Key::new("default", name.as_str());
        let (state, answer) = match number % 3 {
            0 => {
                known.unanswered = Some((name.clone(), Some(number)));
                (Some(number), client.create_dynamic(&MAPS, Some("default"), &map(&name, number)).await)
            }
            1 => {
                let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
                known.unanswered = Some((name.clone(), Some(number)));
                (Some(number), client.patch_dynamic(&MAPS, &key, None, &patch).await)
            }
            // Every other one stays.
            _ if number % 2 == 0 => continue,
            _ => {
                known.unanswered = Some((name.clone(), None));
                let deleted = client.delete_dynamic(&MAPS, &key, &DeleteOptions::default()).await;
                (None, deleted.map(|_| Value::Null))
            }
        };
        let Ok(answer) = answer else { break };
        known.version = known.version.max(version_of(&answer));
        known.acknowledged.insert(name, state);
        known.unanswered = None;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    known
}

/// The numbers in all objects; an incomplete object is an error.
async fn read(client: &Client) -> anyhow::Result<(BTreeMap<String, u64>, ResourceVersion)> {
    let list = client.list_dynamic(&MAPS, Some("default"), &ListParams::default()).await?;
    let mut found = BTreeMap::new();
    for item in &list.items {
        let name = item["metadata"]["name"].as_str().context("no name")?;
        if !name.starts_with('w') {
            continue;
        }
        let number = item["data"]["number"].as_str().and_then(|text| text.parse().ok());
        ensure!(item["data"]["padding"].as_str().map(str::len) == Some(PADDING), "{name} is torn");
        found.insert(name.to_owned(), number.with_context(|| format!("{name} has no number"))?);
    }
    Ok((found, list.resource_version))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_cluster_has_lost_no_acknowledged_write() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data").display().to_string();
    let arguments = ["--data-dir", &data, "--nodes", "0", "--controllers", "serviceaccount-controller"];
    let mut kept: Vec<Known> = Vec::new();
    for round in 0..=ROUNDS {
        let up = Up::start(&arguments)?;
        let client = up.client().await?;
        let (found, version) = read(&client).await?;
        for known in &kept {
            ensure!(version > known.version, "version {version} was given out again after {}", known.version);
            let names = known.acknowledged.keys().chain(known.unanswered.as_ref().map(|(name, _)| name));
            for name in names {
                let number = found.get(name).copied();
                let acknowledged = known.acknowledged.get(name).copied().flatten();
                ensure!(
                    known.allows(name, number),
                    "round {round}: {name} is {number:?}, acknowledged was {acknowledged:?}"
                );
            }
        }
        // There must be no object that this test has not written.
        let written = |name: &String| {
            kept.iter().any(|known| {
                known.acknowledged.contains_key(name)
                    || known.unanswered.as_ref().is_some_and(|(unanswered, _)| unanswered == name)
            })
        };
        ensure!(found.keys().all(written), "there are objects that the test did not write");
        if round == ROUNDS {
            return up.stop();
        }

        let acknowledged = Arc::new(AtomicU64::new(0));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let name = format!("w{round}-{writer}");
            writers.spawn(write(client.clone(), name, Arc::clone(&acknowledged)));
        }
        // The kill hits another stage of the writers' work in each round.
        while acknowledged.load(Ordering::Relaxed) < AT_LEAST + round * 37 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        up.kill()?;
        let ended = tokio::time::timeout(Duration::from_secs(60), writers.join_all()).await;
        kept.extend(ended.context("a writer waits for a dead server")?);
    }
    Ok(())
}
