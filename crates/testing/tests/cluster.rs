//! What a test of an operator relies on: time passes when it is told to, work ends, and a failure explains itself.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_testing::{Cluster, Error};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn deployment(name: &str, replicas: i32, annotations: Value) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {"containers": [{
                    "name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}},
                }]},
            },
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_deployment_settles_without_a_call_that_moves_the_clock() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let begun = cluster.now();
    cluster.apply(&deployment("web", 3, json!({}))).await?;
    cluster.settled().await?;
    let web = cluster.get("deploy", "web").await?.context("no Deployment")?;
    ensure!(web["status"]["readyReplicas"] == 3, "{web}");
    let took = cluster.now().duration_since(begun);
    ensure!(took.as_secs() < 10, "the work took {took} of the cluster's time");

    let before = cluster.now();
    cluster.settled().await?;
    let took = cluster.now().duration_since(before);
    ensure!(took.as_millis() <= 10, "a settled cluster took {took} to settle");
    cluster.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_cron_job_fires_when_its_hour_has_come_and_not_before() -> anyhow::Result<()> {
    let cluster = Cluster::builder().starting_at("2026-03-01T12:00:00Z".parse()?).start().await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "report"}],
        }}}}},
    });
    cluster.apply(&job.to_string()).await?;
    cluster.advance(secs(59 * 60)).await?;
    let none = cluster.get("cronjob", "report").await?.context("no CronJob")?;
    ensure!(none["status"]["lastScheduleTime"].is_null(), "{none}");
    cluster.advance(secs(60)).await?;
    let fired =
        cluster.until("cronjob", "report", |job| job["status"]["lastSuccessfulTime"].is_string()).await?;
    ensure!(fired["status"]["lastScheduleTime"] == "2026-03-01T13:00:00Z", "{fired}");
    // Three hours later it has run three times more, each at its time.
    cluster.advance(3 * HOUR).await?;
    cluster.settled().await?;
    let jobs: Api<k8s_openapi::api::batch::v1::Job> =
        Api::default_namespaced(Client::new(cluster.service(), "default"));
    let kept = jobs.list(&ListParams::default()).await?;
    ensure!(kept.items.len() == 3, "the history keeps three: {:?}", kept.items);
    ensure!(
        kept.items.iter().all(|job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1)))
    );
    Ok(())
}

#[tokio::test]
async fn a_finished_job_goes_when_its_time_to_live_is_over() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"ttlSecondsAfterFinished": 600, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "once"}],
        }}},
    });
    cluster.apply(&job.to_string()).await?;
    cluster.until("job", "once", |job| job["status"]["succeeded"] == 1).await?;
    cluster.advance(secs(590)).await?;
    ensure!(cluster.get("job", "once").await?.is_some(), "it went too early");
    cluster.advance(secs(10)).await?;
    cluster.until("job", "once", Value::is_null).await?;
    Ok(())
}

#[tokio::test]
async fn an_autoscaler_scales_down_when_its_window_has_passed() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    cluster.apply(&deployment("web", 4, json!({"flyball.dev/cpu": "10m"}))).await?;
    cluster.settled().await?;
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
            }}],
        },
    });
    cluster.apply(&scaler.to_string()).await?;
    // The autoscaler's default window for scaling down is five minutes.
    cluster.advance(secs(240)).await?;
    let early = cluster.get("deploy", "web").await?.context("no Deployment")?;
    ensure!(early["spec"]["replicas"] == 4, "{early}");
    cluster.advance(secs(120)).await?;
    cluster
        .until("deploy", "web", |web| web["spec"]["replicas"] == 1 && web["status"]["replicas"] == 1)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_plain_kube_client_reads_writes_and_watches() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let client = Client::new(cluster.service(), "default");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let since = pods.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
    let mut seen = pods.watch(&WatchParams::default(), &since).await?.boxed();
    let web = serde_json::from_str(&deployment("web", 1, json!({})))?;
    deployments.create(&PostParams::default(), &web).await?;
    // An event of a watch arrives without any call that moves the clock.
    loop {
        let event = seen.try_next().await?.context("the watch ended")?;
        let WatchEvent::Modified(pod) = event else { continue };
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn an_operator_inside_follows_the_clock_and_is_waited_for() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    cluster.spawn(async |service| {
        let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
        for hour in 1..=3 {
            tokio::time::sleep(HOUR).await;
            let map = serde_json::from_value(json!({"metadata": {"name": format!("hour-{hour}")}}))
                .unwrap_or_default();
            let _ = maps.create(&PostParams::default(), &map).await;
        }
    });
    cluster.settled().await?;
    ensure!(cluster.get("configmap", "hour-1").await?.is_none());
    cluster.advance(2 * HOUR).await?;
    ensure!(cluster.get("cm", "hour-2").await?.is_some() && cluster.get("cm", "hour-3").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn until_waits_for_an_operator_outside() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(cluster.service(), "default"));
    let operator = async {
        // It reacts to the Deployment being ready, which needs the cluster's time to pass.
        let pods: Api<Deployment> = Api::default_namespaced(Client::new(cluster.service(), "default"));
        loop {
            let ready = pods.get_opt("web").await?.and_then(|web| web.status?.ready_replicas);
            if ready == Some(2) {
                let map = serde_json::from_value(json!({"metadata": {"name": "done"}}))?;
                maps.create(&PostParams::default(), &map).await?;
                return anyhow::Ok(());
            }
            tokio::task::yield_now().await;
        }
    };
    cluster.apply(&deployment("web", 2, json!({}))).await?;
    let (done, operated) = tokio::join!(cluster.until("cm", "done", Value::is_object), operator);
    operated?;
    done?;
    Ok(())
}

#[tokio::test]
async fn a_failure_says_why_the_object_is_as_it_is() -> anyhow::Result<()> {
    let cluster = Cluster::builder().patience(secs(0)).start().await?;
    let mut greedy: Value = serde_json::from_str(&deployment("greedy", 1, json!({})))?;
    greedy["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
    cluster.apply(&greedy.to_string()).await?;
    let unmet = cluster.until("deploy", "greedy", |web| web["status"]["readyReplicas"] == 1).await;
    let Err(error @ Error::Unmet { .. }) = unmet else { anyhow::bail!("{unmet:?}") };
    let text = format!("{error:?}");
    ensure!(text.contains("didn't match Pod's node affinity/selector"), "{text}");
    let why = cluster.why("deploy", "default/greedy").await?;
    ensure!(text.contains(&why), "{text}\n{why}");

    let unknown = format!("{:?}", cluster.get("widget", "a").await.unwrap_err());
    ensure!(unknown.contains("no kind \"widget\""), "{unknown}");
    let refused = cluster.apply("{apiVersion: v1, kind: ConfigMap}").await.unwrap_err();
    ensure!(format!("{refused:?}").contains("needs apiVersion, kind and metadata.name"), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn writes_that_never_end_are_reported_with_the_last_of_them() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    cluster.spawn(async |service| {
        let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(service, "default"));
        for round in 0.. {
            let map = serde_json::from_value(json!({"metadata": {"name": format!("map-{round}")}}))
                .unwrap_or_default();
            let _ = maps.create(&PostParams::default(), &map).await;
            tokio::time::sleep(secs(1)).await;
        }
    });
    let unsettled = cluster.settled().await;
    ensure!(matches!(unsettled, Err(Error::Unsettled { .. })), "{unsettled:?}");
    Ok(())
}

#[tokio::test]
async fn a_lost_node_is_evicted_as_in_a_real_cluster_but_at_once() -> anyhow::Result<()> {
    let cluster = Cluster::builder().nodes(2).start().await?;
    cluster.apply(&deployment("web", 1, json!({}))).await?;
    cluster.settled().await?;
    let pods: Api<Pod> = Api::default_namespaced(Client::new(cluster.service(), "default"));
    let node = async || {
        let listed = pods.list(&ListParams::default()).await?;
        let running = listed.items.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
        anyhow::Ok(running.and_then(|pod| pod.spec?.node_name).unwrap_or_default())
    };
    let first = node().await?;
    let off = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": first, "annotations": {"flyball.dev/stopped": "true"}},
    });
    cluster.apply(&off.to_string()).await?;
    // Lost after 50 seconds, and its pods may stay for 300 more.
    cluster.advance(secs(300)).await?;
    ensure!(node().await? == first);
    cluster.advance(secs(120)).await?;
    cluster.settled().await?;
    let second = node().await?;
    ensure!(!second.is_empty() && second != first, "{second:?}");
    Ok(())
}
