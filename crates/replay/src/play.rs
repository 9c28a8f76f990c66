//! Plays a script against a cluster of our own: the embedded server, all controllers, the scheduler and simulated nodes, on one thread
//! and in virtual time. Nothing waits, and nothing is left to chance, so the same script gives the same decisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::time::truncate;
use flyball_api::{Key, ResourceType, Timestamp};
use flyball_apiserver::Uids;
use flyball_client::{Client, DeleteOptions, Discovery, Error, Patch};
use flyball_playground::cluster::{Cluster, Options, Snapshot, StartError};
use flyball_playground::nodes;
use flyball_playground::nodes::node::STOPPED;
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::{Chain, Clock};
use parking_lot::Mutex;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tokio::time::sleep;

use crate::history::History;
use crate::overrides::{Different, Override};
use crate::script::{Action, Script, Step, Target};

/// Decides generated names.
const SEED: u64 = 36;
/// The interval of heartbeats. In a large cluster they would be most of the work, so they are as rare as the grace period allows.
const HEARTBEAT: Duration = Duration::from_secs(10);
const RARE_HEARTBEAT: Duration = Duration::from_secs(40);
const LARGE: usize = 100;
/// Who applies what is different.
const MANAGER: &str = "flyball-replay";
/// How many problems are kept; beyond that they are counted.
const KEPT: usize = 1000;
const AUTOSCALER: &str = "horizontal-pod-autoscaler-controller";
const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);

#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error("the runtime cannot start")]
    Runtime(#[source] std::io::Error),
    #[error("the recording holds an object that the server cannot have")]
    Objects(#[from] flyball_apiserver::store::SnapshotError),
    #[error("{0:?} is not a range of addresses")]
    Range(String),
    #[error("the cluster cannot start")]
    Start(#[from] StartError),
    #[error("the kinds of the cluster cannot be discovered")]
    Discovery(#[source] Error),
    #[error("{0}")]
    Manifest(String),
}

/// What happened in a replay.
#[derive(Debug, Default)]
pub struct Played {
    pub history: History,
    /// How many steps of the script were played.
    pub steps: usize,
    /// Deletions of what was gone already.
    pub gone: usize,
    /// How many steps the server refused.
    pub failed: usize,
    /// Why, for the first of them.
    pub problems: Vec<String>,
}

/// Plays a script to its end. Must not be called on a thread that runs async code.
pub fn play(script: &Script, flags: &[String], overrides: &[Override]) -> Result<Played, PlayError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(PlayError::Runtime)?;
    let played = runtime.block_on(perform(script, flags, overrides));
    runtime.shutdown_background();
    played
}

async fn perform(script: &Script, flags: &[String], overrides: &[Override]) -> Result<Played, PlayError> {
    let clock = Clock::virtual_from(script.start);
    let (decisions, made) = (DecisionLog::default(), Arc::new(Mutex::new(Vec::new())));
    decisions.tap({
        let made = Arc::clone(&made);
        move |decision| made.lock().push(decision.clone())
    });
    let cluster = Cluster::start(options(script, flags, clock, decisions)?).await?;
    let client = cluster.admin();
    let discovery = client.discover().await.map_err(PlayError::Discovery)?;
    let mut player = Player { client, discovery, clock, lost: BTreeSet::new(), played: Played::default() };
    let outcome = player.run(script, overrides).await;
    let mut played = player.played;
    played.history = History(std::mem::take(&mut *made.lock()));
    cluster.stop().await;
    outcome.map(|()| played)
}

fn options(
    script: &Script,
    flags: &[String],
    clock: Clock,
    decisions: DecisionLog,
) -> Result<Options, PlayError> {
    let snapshot = Snapshot::of(script.start, script.objects.iter().cloned())?;
    let mut controllers = vec!["*".to_owned()];
    if !script.autoscales {
        controllers.push(format!("-{AUTOSCALER}"));
    }
    let mut server = flyball_apiserver::Options {
        uids: Uids::Falling,
        // Nobody asks who has set a field.
        managed_fields: false,
        ..flyball_apiserver::Options::default()
    };
    if !script.service_cidrs.is_empty() {
        let range = |text: &String| text.parse().map_err(|_| PlayError::Range(text.clone()));
        server.service_cidrs = script.service_cidrs.iter().map(range).collect::<Result<_, _>>()?;
    }
    let heartbeat = if script.nodes.len() > LARGE { RARE_HEARTBEAT } else { HEARTBEAT };
    Ok(Options {
        snapshot: Some(snapshot),
        controllers,
        manager_flags: flags.to_vec(),
        toleration: script.toleration,
        nodes: nodes::Options { count: 0, heartbeat },
        server,
        seed: Some(SEED),
        decisions: Some(decisions),
        clock,
        ..Options::default()
    })
}

/// What is done next.
enum Next<'a> {
    Different(&'a Different),
    Step(&'a Step),
}

struct Player {
    client: Client,
    discovery: Discovery,
    clock: Clock,
    /// Nodes that do not come back.
    lost: BTreeSet<SmolStr>,
    played: Played,
}

impl Player {
    async fn run(&mut self, script: &Script, overrides: &[Override]) -> Result<(), PlayError> {
        let different = overrides.iter().map(|one| (one.at, Next::Different(&one.what)));
        let mut all: Vec<(Timestamp, Next<'_>)> =
            different.chain(script.steps.iter().map(|step| (step.at, Next::Step(step)))).collect();
        // Stable: at the same time, what is different comes first.
        all.sort_by_key(|(at, _)| *at);
        for (at, next) in all {
            sleep(self.clock.until(at)).await;
            match next {
                Next::Different(Different::Lost(nodes)) => self.lose(nodes).await,
                Next::Different(Different::Apply(object)) => self.apply(object).await?,
                Next::Step(step) => self.step(step).await,
            }
        }
        sleep(self.clock.until(script.end)).await;
        Ok(())
    }

    async fn step(&mut self, step: &Step) {
        let Step { target, action, .. } = step;
        let name = &target.key.name;
        if matches!(action, Action::Power { on: true }) && self.lost.contains(name) {
            return;
        }
        self.played.steps += 1;
        let (verb, done) = match action {
            Action::Create(object) => ("create", self.create(target, object).await),
            Action::Patch(patch) => {
                ("patch", self.patch(target, keeping_off(patch, self.is_lost(target))).await)
            }
            Action::Delete { propagation, grace_period } => {
                let options = DeleteOptions {
                    propagation: *propagation,
                    grace_period: *grace_period,
                    ..DeleteOptions::default()
                };
                let deleted = self.client.delete_dynamic(&target.resource, &target.key, &options).await;
                ("delete", deleted.map(drop))
            }
            Action::Power { on } => ("switch", self.switch(name, *on).await),
        };
        match done {
            Ok(()) => {}
            Err(error) if error.is_not_found() && verb == "delete" => self.played.gone += 1,
            Err(error) => self.fail(verb, target, &error),
        }
    }

    fn is_lost(&self, target: &Target) -> bool {
        target.resource.plural == "nodes"
            && target.resource.group.is_empty()
            && self.lost.contains(&target.key.name)
    }

    async fn create(&self, target: &Target, object: &Value) -> Result<(), Error> {
        let mut body = object.clone();
        self.mend_references(target, &mut body).await;
        let Target { resource, key } = target;
        let created = match self.client.create_dynamic(resource, key.namespace(), &body).await {
            // A component was faster.
            Err(error) if error.is_already_exists() => return self.patch(target, body).await,
            created => created?,
        };
        // The first status of a node says how much it has.
        if resource.plural == "nodes"
            && let Some(status) = body.get("status").filter(|_| created["status"]["allocatable"].is_null())
        {
            let patch = Patch::Merge(json!({"status": status}));
            self.client.patch_dynamic(resource, key, Some("status"), &patch).await?;
        }
        Ok(())
    }

    async fn patch(&self, target: &Target, patch: Value) -> Result<(), Error> {
        let patch = Patch::Merge(patch);
        self.client.patch_dynamic(&target.resource, &target.key, None, &patch).await.map(drop)
    }

    /// Objects that are created in a replay have other uids, and so have references to them.
    async fn mend_references(&self, target: &Target, object: &mut Value) {
        if let Some(claim) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
            claim.retain(|name, _| !matches!(name.as_str(), "uid" | "resourceVersion"));
        }
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        let Some(owners) = owners else { return };
        for owner in owners {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let Some(resource) = self.resource(text("apiVersion"), text("kind")) else { continue };
            let namespace =
                if resource.namespaced { target.key.namespace.clone() } else { SmolStr::default() };
            let key = Key::new(namespace, text("name"));
            if let Ok(found) = self.client.get_dynamic(resource, &key).await {
                owner["uid"] = found["metadata"]["uid"].clone();
            }
        }
    }

    fn resource(&self, api_version: &str, kind: &str) -> Option<&ResourceType> {
        let all = self.discovery.resources.iter().map(|found| &found.resource);
        all.into_iter().find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    async fn lose(&mut self, nodes: &[SmolStr]) {
        for name in nodes {
            self.lost.insert(name.clone());
            if let Err(error) = self.switch(name, false).await {
                let target = Target { resource: NODES, key: Key::cluster(name.clone()) };
                self.fail("lose", &target, &error);
            }
        }
    }

    async fn switch(&self, node: &str, on: bool) -> Result<(), Error> {
        let value = if on { Value::Null } else { json!("true") };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {STOPPED: value}}}));
        self.client.patch_dynamic(&NODES, &Key::cluster(node), None, &patch).await.map(drop)
    }

    async fn apply(&self, object: &Value) -> Result<(), PlayError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let metadata = &object["metadata"];
        let name = text(&metadata["name"]);
        let Some(resource) = self.resource(&api_version, &kind) else {
            return Err(PlayError::Manifest(format!("the cluster has no kind {kind:?} in {api_version:?}")));
        };
        let namespace = match (resource.namespaced, text(&metadata["namespace"])) {
            (false, _) => String::new(),
            (true, none) if none.is_empty() => "default".to_owned(),
            (true, given) => given,
        };
        let patch = Patch::Apply { manager: MANAGER.into(), force: true, object: object.clone() };
        let applied =
            self.client.patch_dynamic(resource, &Key::new(namespace, name.as_str()), None, &patch).await;
        let refused =
            |error: Error| PlayError::Manifest(format!("{kind}/{name} was refused: {}", Chain(&error)));
        applied.map(drop).map_err(refused)
    }

    fn fail(&mut self, verb: &str, target: &Target, error: &Error) {
        self.played.failed += 1;
        if self.played.problems.len() < KEPT {
            let now = truncate(self.clock.now());
            let why =
                error.status().map_or_else(|| Chain(error).to_string(), |status| status.message.clone());
            let kind = &target.resource.kind;
            self.played.problems.push(format!("{now:.0} {verb} {kind} {}: {why}", target.key));
        }
    }
}

/// A patch of a lost node does not switch it on again.
fn keeping_off(patch: &Value, is_lost: bool) -> Value {
    let mut patch = patch.clone();
    let annotations = patch.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(annotations) = annotations.filter(|_| is_lost) {
        annotations.remove(STOPPED);
    }
    patch
}
