//! Takeover: upstream's controller manager builds a cluster with objects of many kinds, ours takes it over, and upstream's
//! takes it back. Neither may write anything. Skipped without assets.

mod volumes;
mod workloads;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::audit::{AuditLog, Entry};
use flyball_sim::cluster::{Cluster, Manager, Process};
use flyball_sim::load::NAMESPACE;
use flyball_sim::ours::{self, Profile};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A controller manager is at rest after this long without a write.
const QUIET: Duration = Duration::from_secs(5);
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
/// A new controller manager must not write for this long; its caches are filled well before.
const SILENT_FOR: Duration = Duration::from_secs(15);

/// Controllers of a real cluster that have no part in this test.
const COMPANIONS: [&str; 4] = [
    "serviceaccount-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
];

/// Ours, in the sequence of managers.
const OURS: &str = "ours";

/// Objects by name, with the fields that must not change.
type State = BTreeMap<String, Value>;

/// A cluster whose controller manager changes: upstream's first, then ours, then upstream's again.
struct Relay<'a> {
    cluster: &'a Cluster,
    upstream: PathBuf,
    controllers: Vec<String>,
    flags: Vec<String>,
    log: AuditLog,
    process: Process,
}

impl<'a> Relay<'a> {
    /// Starts upstream's controller manager.
    fn start(
        cluster: &'a Cluster,
        upstream: &Path,
        controllers: &[&str],
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let sorted: std::collections::BTreeSet<&str> = controllers.iter().copied().collect();
        let controllers: Vec<String> = sorted.into_iter().map(str::to_owned).collect();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let process = begin(cluster, "upstream-1", upstream, &controllers, &flags)?;
        let log = cluster.audit_log();
        Ok(Self { cluster, upstream: upstream.to_owned(), controllers, flags, log, process })
    }

    /// Lets the others take over, which must not change anything.
    async fn hand_over(mut self, api: &Api, kinds: &[&str], built: &State) -> anyhow::Result<()> {
        let ours = ours::binary(Profile::Debug)?;
        let heirs = [(OURS, ours), ("upstream-2", self.upstream.clone())];
        for (name, program) in heirs {
            self.process.stop(Duration::from_secs(20)).await?;
            self.log.read()?;
            self.process = begin(self.cluster, name, &program, &self.controllers, &self.flags)?;
            untouched(name, api, &mut self.log, &mut self.process, kinds, built).await?;
        }
        self.process.stop(Duration::from_secs(20)).await?;
        Ok(())
    }
}

fn begin(
    cluster: &Cluster,
    name: &str,
    program: &Path,
    controllers: &[String],
    flags: &[String],
) -> anyhow::Result<Process> {
    cluster.start_manager(name, &Manager { binary: program, controllers, leader_elect: true, flags })
}

/// Waits until the controller manager has come to rest.
async fn settle(log: &mut AuditLog, process: &mut Process) -> anyhow::Result<()> {
    let (start, mut last) = (Instant::now(), Instant::now());
    while last.elapsed() < QUIET {
        ensure!(process.ended().is_none(), "{} ended", process.name());
        ensure!(start.elapsed() < SETTLED_WITHIN, "{} does not come to rest", process.name());
        tokio::time::sleep(Duration::from_millis(200)).await;
        if log.read()?.iter().any(is_change) {
            last = Instant::now();
        }
    }
    Ok(())
}

/// Writes that change the cluster: no leases, events, reviews or conflicts.
fn is_change(entry: &Entry) -> bool {
    let aside = matches!(
        entry.resource.as_str(),
        "leases" | "events" | "tokenreviews" | "subjectaccessreviews" | "selfsubjectaccessreviews"
    );
    entry.by_manager() && entry.is_write() && !aside && entry.subresource != "token" && entry.code < 400
        // Creates an account for a controller that acts for the first time.
        && !(entry.resource == "serviceaccounts" && entry.namespace == "kube-system")
}

/// Every object of the namespace, and of these cluster-scoped resources, with its uid, version and status.
async fn state(api: &Api, cluster: &[&str]) -> anyhow::Result<State> {
    let mut state = BTreeMap::new();
    for resource in api.preferred() {
        let name = resource.name.as_str();
        let namespace = match resource.namespaced {
            true if matches!(name, "events" | "leases") => continue,
            true => Some(NAMESPACE),
            false if cluster.contains(&name) => None,
            false => continue,
        };
        if !resource.allows("list") {
            continue;
        }
        for object in api.list(&resource, namespace, None).await? {
            let meta = &object["metadata"];
            let key = format!("{}/{}", resource.name, meta["name"].as_str().unwrap_or_default());
            let shown = json!({
                "uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "status": object["status"],
            });
            state.insert(key, shown);
        }
    }
    Ok(state)
}

/// Fails unless `name` takes the lease, writes nothing, and leaves everything as it was.
async fn untouched(
    name: &str,
    api: &Api,
    log: &mut AuditLog,
    process: &mut Process,
    cluster: &[&str],
    before: &State,
) -> anyhow::Result<()> {
    let what = format!("{name} took over");
    let (start, since) = (Instant::now(), Timestamp::now());
    let (mut watching, mut changes) = (None, Vec::new());
    // The lease of the previous manager has to expire first.
    while watching.is_none_or(|since: Instant| since.elapsed() < SILENT_FOR) {
        ensure!(start.elapsed() < Duration::from_secs(120), "{what}, but opened no watch");
        ensure!(process.ended().is_none(), "{what}, but ended");
        tokio::time::sleep(Duration::from_millis(200)).await;
        for entry in log.read()? {
            if entry.verb == "watch" && entry.by_manager() && entry.resource == "pods" {
                watching = watching.or(Some(Instant::now()));
            }
            // Upstream's attach-detach controller first writes each node's attached volumes again.
            let is_echo = name != OURS && entry.resource == "nodes" && entry.subresource == "status";
            if is_change(&entry) && !is_echo {
                changes.push(entry);
            }
        }
        // A warm standby watches before it leads: writes count only from the lease on.
        if watching.is_some() && !is_led(api, since).await? {
            watching = watching.map(|_| Instant::now());
        }
    }
    ensure!(changes.is_empty(), "{what} and wrote: {changes:#?}");
    let after = state(api, cluster).await?;
    for (key, was) in before {
        let is = after.get(key);
        ensure!(is == Some(was), "{what}: {key} was {was}, is {}", is.unwrap_or(&Value::Null));
    }
    let new: Vec<&String> = after.keys().filter(|key| !before.contains_key(*key)).collect();
    ensure!(new.is_empty(), "{what}: new are {new:?}");
    Ok(())
}

/// Whether the lease has a new holder since then.
async fn is_led(api: &Api, since: Timestamp) -> anyhow::Result<bool> {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    let lease = api.get(path).await?;
    let acquired = lease["spec"]["acquireTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    Ok(acquired.is_some_and(|acquired| acquired > since))
}
