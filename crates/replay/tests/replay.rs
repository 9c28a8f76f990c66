//! A playground is recorded and played: the recording has no secrets, and its replay repeats to the letter.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::{Key, ResourceType, Timestamp};
use flyball_apiserver::Uids;
use flyball_client::{Client, DeleteOptions, Patch};
use flyball_playground::cluster::{Cluster, Options};
use flyball_playground::nodes::node::STOPPED;
use flyball_replay::diff::{Difference, differences};
use flyball_replay::file::Recording;
use flyball_replay::overrides::{Asked, Manifests, Timed, When, resolve};
use flyball_replay::play::{Played, play};
use flyball_replay::record::record;
use flyball_replay::redact::Redactor;
use flyball_replay::script::Script;
use flyball_runtime::Clock;
use serde_json::{Value, json};
use tokio::time::sleep;

const START: &str = "2026-03-01T11:50:00Z";
const MINUTE: Duration = Duration::from_secs(60);
const RECORDED: Duration = Duration::from_secs(20 * 60);
/// Must not be found anywhere in a recording.
const PLANTED: &str = "hunter2";
/// A replay takes seconds without optimisation. `flyball replay FILE --times 100` does it a hundred times.
const TIMES: usize = 10;

const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
const STATEFUL_SETS: ResourceType = ResourceType::new("apps", "v1", "statefulsets", "StatefulSet", true);
const CRON_JOBS: ResourceType = ResourceType::new("batch", "v1", "cronjobs", "CronJob", true);
const AUTOSCALERS: ResourceType =
    ResourceType::new("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true);
const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const SECRETS: ResourceType = ResourceType::new("", "v1", "secrets", "Secret", true);
const NAMESPACES: ResourceType = ResourceType::new("", "v1", "namespaces", "Namespace", false);
const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": PLANTED}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"flyball.dev/cpu": "90m", "example.com/token": PLANTED}},
                "spec": {"containers": [{
                    "name": "c", "image": "web:1", "args": [PLANTED],
                    "env": [{"name": "PASSWORD", "value": PLANTED}],
                    "resources": {"requests": {"cpu": "100m"}},
                }]},
            },
        },
    })
}

fn database() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c", "image": "db:1", "env": [{"name": "A", "value": PLANTED}]}]},
            },
        },
    })
}

fn report() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "report:1"}],
        }}}}},
    })
}

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
        },
    })
}

/// What a user does in twenty minutes, a Deployment and a StatefulSet being there before.
async fn story(client: &Client) -> anyhow::Result<()> {
    let patch = async |resource: &ResourceType, key: &Key, patch: Value| {
        client.patch_dynamic(resource, key, None, &Patch::Merge(patch)).await.map(drop)
    };
    let stopped = |value: Value| json!({"metadata": {"annotations": {STOPPED: value}}});
    let (web, node) = (Key::new("default", "web"), Key::cluster("node-2"));
    sleep(MINUTE).await;
    client.create_dynamic(&AUTOSCALERS, "default", &autoscaler()).await?;
    client.create_dynamic(&CRON_JOBS, "default", &report()).await?;
    client
        .create_dynamic(
            &NAMESPACES,
            None,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        )
        .await?;
    sleep(Duration::from_secs(1)).await;
    client.create_dynamic(&DEPLOYMENTS, "shop", &deployment("cart", 2)).await?;
    sleep(MINUTE * 2).await;
    let image =
        json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "web:2"}]);
    client.patch_dynamic(&DEPLOYMENTS, &web, None, &Patch::Json(image)).await?;
    sleep(MINUTE * 2).await;
    patch(&NODES, &node, stopped(json!("true"))).await?;
    sleep(MINUTE * 8).await;
    patch(&NODES, &node, stopped(Value::Null)).await?;
    sleep(MINUTE).await;
    patch(&STATEFUL_SETS, &Key::new("default", "db"), json!({"spec": {"replicas": 3}})).await?;
    sleep(MINUTE).await;
    client.delete_dynamic(&DEPLOYMENTS, &Key::new("shop", "cart"), &DeleteOptions::default()).await?;
    sleep(MINUTE).await;
    client.delete_dynamic(&NAMESPACES, &Key::cluster("shop"), &DeleteOptions::default()).await?;
    Ok(())
}

/// A recording of a playground with three nodes in three zones.
fn recorded() -> anyhow::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let clock = Clock::virtual_from(START.parse::<Timestamp>()?);
        let server =
            flyball_apiserver::Options { uids: Uids::Falling, ..flyball_apiserver::Options::default() };
        let cluster = Cluster::start(Options { clock, server, seed: Some(1), ..Options::default() }).await?;
        let client = cluster.admin().named("kubectl/v1.36.4");
        // Namespaces have their accounts then.
        sleep(Duration::from_secs(5)).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": PLANTED}});
        client.create_dynamic(&SECRETS, "default", &secret).await?;
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"password": PLANTED}});
        client.create_dynamic(&CONFIG_MAPS, "default", &config).await?;
        client.create_dynamic(&DEPLOYMENTS, "default", &deployment("web", 3)).await?;
        client.create_dynamic(&STATEFUL_SETS, "default", &database()).await?;
        sleep(MINUTE).await;
        let (mut file, redactor) = (Vec::new(), Redactor::with_key(b"always the same"));
        let (recorded, told) =
            tokio::join!(record(&client, &mut file, &redactor, clock, sleep(RECORDED)), story(&client));
        told.context("the story")?;
        let recorded = recorded?;
        ensure!(recorded.missing.is_empty(), "{:?}", recorded.missing);
        cluster.stop().await;
        Ok(file)
    })
}

fn script(file: &[u8]) -> anyhow::Result<Script> {
    let recording = Recording::read(file)?;
    ensure!(recording.is_complete);
    Ok(Script::of(&recording))
}

fn played(script: &Script, asked: &Asked) -> anyhow::Result<Played> {
    let played = play(script, &asked.flags, &resolve(asked, script)?)?;
    ensure!(played.failed == 0, "{:#?}", played.problems);
    Ok(played)
}

fn shown(found: &[Difference]) -> String {
    let line = |one: &Difference| {
        let Difference { minute, sort, before, after, why } = one;
        format!(
            "{} {}: {} {} {} {before}>{after}: {why}\n",
            minute.strftime("%H:%M"),
            sort.controller,
            sort.action,
            sort.kind,
            sort.name
        )
    };
    found.iter().map(line).collect()
}

#[test]
fn the_same_recording_gives_the_same_decisions_each_time() -> anyhow::Result<()> {
    let script = script(&recorded()?)?;
    let first = played(&script, &Asked::default())?;
    ensure!(first.history.len() > 100, "only {} decisions", first.history.len());
    for n in 1..TIMES {
        let again = played(&script, &Asked::default())?;
        if let Some(difference) = first.history.difference(&again.history) {
            anyhow::bail!("replay {n}: {difference}");
        }
        ensure!(first.history.digest() == again.history.digest());
    }
    Ok(())
}

#[test]
fn no_planted_secret_is_in_a_recording() -> anyhow::Result<()> {
    let file = recorded()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&*file), &mut text)?;
    ensure!(
        text.contains("\"default/web\"") || text.contains("deployments/default/web"),
        "it records nothing"
    );
    ensure!(text.contains("PASSWORD"), "names of variables stay");
    for secret in
        [PLANTED, "aHVudGVyMg", "\"Secret\"", "BEGIN CERTIFICATE", "eyJ", "\"Lease\"", "managedFields"]
    {
        ensure!(!text.contains(secret), "{secret} is in the recording");
    }
    Ok(())
}

#[test]
fn users_actions_are_played_and_those_of_components_are_not() -> anyhow::Result<()> {
    use flyball_replay::script::Action;
    let script = script(&recorded()?)?;
    let steps: Vec<String> = script
        .steps
        .iter()
        .map(|step| {
            let verb = match &step.action {
                Action::Create(_) => "create",
                Action::Patch(_) => "patch",
                Action::Delete { .. } => "delete",
                Action::Power { .. } => "power",
            };
            format!(
                "{} {verb} {} {}",
                step.at.strftime("%H:%M"),
                step.target.resource.plural,
                step.target.key
            )
        })
        .collect();
    let want = [
        "11:52 create horizontalpodautoscalers default/web",
        "11:52 create cronjobs default/report",
        "11:52 create namespaces shop",
        "11:52 create deployments shop/cart",
        "11:54 patch deployments default/web",
        "11:56 patch nodes node-2",
        "12:04 patch nodes node-2",
        "12:05 patch statefulsets default/db",
        "12:06 delete deployments shop/cart",
        "12:07 delete namespaces shop",
    ];
    ensure!(steps == want, "{steps:#?}");
    ensure!(
        script.left_to_components > 100 && script.autoscales && script.notes.is_empty(),
        "{:?}",
        script.notes
    );
    Ok(())
}

#[test]
fn controllers_do_in_a_replay_what_they_did() -> anyhow::Result<()> {
    let script = script(&recorded()?)?;
    let history = played(&script, &Asked::default())?.history;
    let said: Vec<String> = history
        .0
        .iter()
        .map(|decision| {
            format!("{}: {} {}: {}", decision.controller, decision.action, decision.target, decision.why)
        })
        .collect();
    let happened = |parts: &[&str]| said.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    for parts in [
        &["horizontal-pod-autoscaler-controller", "default/web"][..],
        &["deployment-controller", "create ReplicaSet/default/web"],
        &["cronjob-controller", "create Job/default/report"],
        &["node-lifecycle-controller", "Node/node-2"],
        &["taint-eviction-controller", "delete Pod/default/"],
        &["statefulset-controller", "create Pod/default/db-2"],
        &["default-scheduler", "Pod/default/db-2"],
        &["kubelet", "Pod/default/db-2"],
        &["namespace-controller", "shop"],
    ] {
        ensure!(happened(parts), "{parts:?} is missing in\n{}", said.join("\n"));
    }
    let first =
        history.0.iter().find(|decision| decision.action == "create").context("nothing is created")?;
    ensure!(
        first.time.to_string().as_str() >= "2026-03-01T11:52",
        "what was there at the start stays: {first:?}"
    );
    Ok(())
}

#[test]
fn a_lost_zone_makes_a_difference_from_then_on() -> anyhow::Result<()> {
    let script = script(&recorded()?)?;
    let baseline = played(&script, &Asked::default())?;
    let lost = Asked { lose_zones: vec!["zone-c@12:05".parse()?], ..Asked::default() };
    let found = differences(&baseline.history, &played(&script, &lost)?.history);
    let text = shown(&found);
    ensure!(found.iter().all(|one| one.minute.to_string().as_str() >= "2026-03-01T12:05"), "{text}");
    ensure!(text.contains("node-lifecycle-controller") && text.contains("node-3"), "{text}");
    ensure!(differences(&baseline.history, &baseline.history).is_empty());
    Ok(())
}

#[test]
fn a_flag_and_a_manifest_make_a_difference() -> anyhow::Result<()> {
    let script = script(&recorded()?)?;
    let baseline = played(&script, &Asked::default())?;
    let flags = Asked { flags: vec!["--node-monitor-grace-period=200s".to_owned()], ..Asked::default() };
    let text = shown(&differences(&baseline.history, &played(&script, &flags)?.history));
    ensure!(
        text.contains("11:56 node-lifecycle-controller") || text.contains("11:57 node-lifecycle-controller"),
        "{text}"
    );
    let objects = vec![json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db2"},
        "spec": deployment("db2", 2)["spec"]})];
    let manifests = Manifests { file: "db2.yaml".into(), objects };
    let apply =
        Asked { apply: vec![Timed { what: manifests, when: When::After(MINUTE) }], ..Asked::default() };
    let text = shown(&differences(&baseline.history, &played(&script, &apply)?.history));
    ensure!(text.contains("replicaset-controller: create Pod db2-"), "{text}");
    let wrong = Asked { flags: vec!["--no-such-flag".to_owned()], ..Asked::default() };
    ensure!(play(&script, &wrong.flags, &[]).is_err());
    Ok(())
}

/// Writes the recording that tests of `flyball replay` use: `FLYBALL_FIXTURE=1 cargo test -p flyball-replay fixture`.
#[test]
fn the_fixture_can_be_played() -> anyhow::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/playground.recording");
    if std::env::var_os("FLYBALL_FIXTURE").is_some() {
        std::fs::write(path, recorded()?)?;
    }
    let script = script(&std::fs::read(path)?)?;
    ensure!(played(&script, &Asked::default())?.history.len() > 100);
    Ok(())
}
