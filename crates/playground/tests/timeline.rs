//! The clock of a running cluster is moved: what is due on the way happens, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::job::Job;
use flyball_api::{Key, ResourceType};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ListParams, Patch};
use flyball_playground::cluster::{Cluster, Options};
use flyball_playground::nodes;
use flyball_playground::timeline::{FASTEST, LONGEST, Timeline};
use serde_json::{Value, json};
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const CRON_JOBS: ResourceType = ResourceType::new("batch", "v1", "cronjobs", "CronJob", true);
const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);
const EVENTS: ResourceType = ResourceType::new("", "v1", "events", "Event", true);
const HPAS: ResourceType =
    ResourceType::new("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true);
const JOBS: ResourceType = ResourceType::new("batch", "v1", "jobs", "Job", true);
const LEASES: ResourceType = ResourceType::new("coordination.k8s.io", "v1", "leases", "Lease", true);
const NODES: ResourceType = ResourceType::new("", "v1", "nodes", "Node", false);
const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);

async fn start(timeline: &Timeline, options: Options) -> anyhow::Result<Cluster> {
    let (dial, heartbeat) = (timeline.dial(), Duration::from_secs(2));
    let options = Options {
        nodes: nodes::Options { count: 3, heartbeat },
        manager_flags: vec!["--node-monitor-grace-period=10s".to_owned()],
        clock: dial.clock(),
        dial: Some(dial),
        ..options
    };
    Ok(timeline.run(Cluster::start(options)).await??)
}

async fn list(
    client: &Client,
    resource: &ResourceType,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    Ok(client.list_dynamic(resource, namespace, &ListParams::default()).await?.items)
}

fn pod_template(app: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": {"flyball.dev/cpu": cpu}},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

fn job_spec() -> Value {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
    json!({"ttlSecondsAfterFinished": 600, "template": template})
}

async fn replicas(client: &Client) -> anyhow::Result<i64> {
    let web = client.get_dynamic(&DEPLOYMENTS, &Key::new("default", "web")).await?;
    web["spec"]["replicas"].as_i64().context("no replicas")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_due_on_the_way_happens_and_no_node_is_lost() -> anyhow::Result<()> {
    let timeline = Timeline::start(None, None).await?;
    let (cluster, dial) = (start(&timeline, Options::default()).await?, timeline.dial());
    let client = cluster.admin();
    // Service accounts are there then.
    dial.advance(MINUTE).await?;
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"},
        "spec": {"schedule": "0 * * * *", "successfulJobsHistoryLimit": 10, "jobTemplate": {"spec": job_spec()}},
    });
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pod_template("web", "400m")},
    });
    let target = json!({"type": "Utilization", "averageUtilization": 100});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    });
    for (resource, object) in [(&CRON_JOBS, cron), (&DEPLOYMENTS, web), (&HPAS, autoscaler)] {
        client.create_dynamic(resource, Some("default"), &object).await?;
    }

    let before = dial.now();
    dial.advance(2 * HOUR).await?;
    // And the time that this took.
    let after = dial.now();
    ensure!(after.duration_since(before).as_secs() >= 7200, "from {before} to {after}");
    let report = client.get_dynamic(&CRON_JOBS, &Key::new("default", "report")).await?;
    ensure!(report["status"]["lastScheduleTime"].is_string(), "no schedule was met: {report}");
    let created = list(&client, &EVENTS, Some("default")).await?;
    let created = created.iter().filter(|event| {
        event["reason"] == "SuccessfulCreate" && event["involvedObject"]["kind"] == "CronJob"
    });
    let hours = after.as_second() / 3600 - before.as_second() / 3600;
    ensure!(i64::try_from(created.count())? <= hours, "hours are met once");

    // Ten minutes after it ended, a Job is gone; one at the full hour may just have ended.
    let jobs = |client: Client| async move { anyhow::Ok(list(&client, &JOBS, Some("default")).await?.len()) };
    ensure!(jobs(client.clone()).await? <= 1, "Jobs outlive their TTL");

    // The autoscaler follows at once upwards, and after its window of five minutes downwards.
    ensure!(replicas(&client).await? == 4, "{} replicas", replicas(&client).await?);
    let calm = Patch::Merge(json!({"spec": {"template": pod_template("web", "10m")}}));
    client.patch_dynamic(&DEPLOYMENTS, &Key::new("default", "web"), None, &calm).await?;
    dial.advance(2 * MINUTE).await?;
    ensure!(replicas(&client).await? == 4, "{} replicas within the window", replicas(&client).await?);
    dial.advance(10 * MINUTE).await?;
    ensure!(replicas(&client).await? == 1, "{} replicas after the window", replicas(&client).await?);

    // Nodes have sent their heartbeats.
    let now = dial.now();
    for lease in list(&client, &LEASES, Some("kube-node-lease")).await? {
        let renewed = lease["spec"]["renewTime"].as_str().context("never renewed")?.parse()?;
        ensure!(now.duration_since(renewed).as_secs() < 10, "{lease}");
    }
    for node in list(&client, &NODES, None).await? {
        ensure!(node["spec"]["taints"].is_null(), "{node}");
    }
    let lost = list(&client, &EVENTS, None).await?;
    ensure!(lost.iter().all(|event| event["reason"] != "NodeNotReady"), "a node was lost on the way");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn time_goes_faster_until_it_is_told_otherwise() -> anyhow::Result<()> {
    let timeline = Timeline::start(None, None).await?;
    let (cluster, dial) = (start(&timeline, Options::default()).await?, timeline.dial());
    let client = cluster.admin();
    dial.advance(MINUTE).await?;
    let (begun, real) = (dial.now(), std::time::Instant::now());
    dial.set_speed(600).await?;
    ensure!(dial.speed() == 600);
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": job_spec()});
    let created = client.create_dynamic(&JOBS, Some("default"), &job).await?;
    let uid = created["metadata"]["uid"].clone();
    // Its end, and ten minutes later its removal.
    let informers = Informers::new(client.clone(), InformerOptions::default());
    let (jobs, changed) = (informers.get::<Job>(), Arc::new(Notify::new()));
    let _subscription = jobs.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    jobs.synced().await;
    while jobs
        .store()
        .get(&Key::new("default", "once"))
        .is_some_and(|job| uid == job.metadata.uid.to_string())
    {
        changed.notified().await;
    }
    let passed = dial.now().duration_since(begun).as_secs();
    ensure!(passed >= 600, "the Job was removed after {passed} s");
    ensure!(passed > 2 * i64::try_from(real.elapsed().as_secs())?, "no faster than real time");
    dial.set_speed(1).await?;
    let pods = list(&client, &PODS, Some("default")).await?;
    ensure!(pods.is_empty(), "{pods:?}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_is_where_it_was_after_a_restart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = || Options { data_dir: Some(folder.path().to_owned()), ..Options::default() };
    let timeline = Timeline::start(Some(folder.path()), None).await?;
    let cluster = start(&timeline, options()).await?;
    timeline.dial().advance(HOUR).await?;
    let then = timeline.dial().now();
    cluster.stop().await;
    timeline.end().await;
    let timeline = Timeline::start(Some(folder.path()), None).await?;
    ensure!(timeline.dial().now().duration_since(then).as_secs() >= -1, "it went back");
    let cluster = start(&timeline, options()).await?;
    ensure!(list(&cluster.admin(), &NODES, None).await?.len() == 3);
    cluster.stop().await;
    timeline.end().await;

    std::fs::write(folder.path().join("clock"), "soon")?;
    let refused =
        Timeline::start(Some(folder.path()), None).await.err().context("a wrong file is accepted")?;
    ensure!(refused.to_string().ends_with("clock: a number of seconds was expected"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn what_nobody_waits_for_ends_and_what_is_too_far_is_refused() -> anyhow::Result<()> {
    let timeline = Timeline::start(None, None).await?;
    let (dial, begun) = (timeline.dial(), timeline.dial().now());
    let moving = tokio::spawn(async move { dial.advance(LONGEST).await.map(|_| ()) });
    tokio::task::yield_now().await;
    moving.abort();
    let _ = moving.await;
    // In order: this is answered when the first has ended.
    let dial = timeline.dial();
    dial.set_speed(1).await?;
    ensure!(dial.now().duration_since(begun).as_secs() < i64::try_from(LONGEST.as_secs())?);
    let far = dial.advance(LONGEST + HOUR).await.err().context("moved")?;
    ensure!(far.to_string().starts_with("the clock can be moved by 366 days at once"), "{far}");
    for speed in [0, FASTEST + 1] {
        ensure!(dial.set_speed(speed).await.is_err(), "{speed}");
    }
    Ok(())
}
