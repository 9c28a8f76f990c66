//! Objects at the limits of what an API server accepts, for all controllers at once: no controller may panic, spin or write
//! without end, whether the objects arrive one by one or exist when it starts. Virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::golden::backend::Backend;
use flyball_sim::golden::embedded::InProcess;
use flyball_sim::load::NAMESPACE;
use flyball_sim::{load, testbed};
use http::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};

const OBJECTS: &str = include_str!("hostile/objects.yaml");
/// Includes those that are off by default.
const CONTROLLERS: [&str; 3] = ["*", "bootstrap-signer-controller", "token-cleaner-controller"];
/// Time to come to rest, and time of observation.
const SETTLE: Duration = Duration::from_secs(600);
const WATCHED: Duration = Duration::from_secs(1200);
/// The shortest resync interval (volumes, autoscalers) is 15 seconds: 80 writes in the observed time, and a few more.
const WRITES_PER_OBJECT: usize = 85;
const KEYS_PER_QUEUE: f64 = 300.0;

#[test]
fn hostile_objects_break_nothing() -> anyhow::Result<()> {
    testbed::embedded("hostile_objects_break_nothing", &CONTROLLERS, async |cluster| {
        let api = cluster.api().clone();
        load::create_namespace(&api).await?;
        let controllers = CONTROLLERS.map(str::to_owned);
        let objects = objects()?;
        let mut refused = vec![];
        for object in &objects {
            if let Err(why) = create(&api, object).await {
                refused.push(format!("{} {}: {why:#}", object["kind"], object["metadata"]["name"]));
            }
        }
        ensure!(refused.is_empty(), "refused by the server:\n{}", refused.join("\n"));

        cluster.start_kcm(&controllers, &[]).await?;
        at_rest(cluster, "found at the start").await?;
        for object in &objects {
            change(&api, object, &json!({"metadata": {"annotations": {"example.com/touched": "yes"}}}))
                .await?;
        }
        at_rest(cluster, "changed one by one").await
    })
}

/// The time at which this Job began cannot be represented exactly. It must be written as it was read, or the server refuses every status,
/// and the finalizers of its pods stay.
#[test]
fn a_namespace_with_a_job_of_as_many_pods_as_possible_can_be_deleted() -> anyhow::Result<()> {
    const CONTROLLERS: [&str; 5] = [
        "garbage-collector-controller",
        "job-controller",
        "namespace-controller",
        "pod-garbage-collector-controller",
        "resourcequota-controller",
    ];
    let test = "a_namespace_with_a_job_of_as_many_pods_as_possible_can_be_deleted";
    testbed::embedded(test, &CONTROLLERS, async |cluster| {
        let api = cluster.api().clone();
        load::create_namespace(&api).await?;
        let chosen = ["for-ever", "nothing"];
        for object in
            objects()?.iter().filter(|object| chosen.iter().any(|name| object["metadata"]["name"] == *name))
        {
            create(&api, object).await?;
        }
        cluster.start_kcm(&CONTROLLERS.map(str::to_owned), &[]).await?;
        tokio::time::sleep(SETTLE).await;

        let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
        api.send(Call::new(Method::DELETE, &namespace)).await?;
        tokio::time::sleep(SETTLE).await;
        let (status, left) = api.send(Call::new(Method::GET, &namespace).tolerate(&[404])).await?;
        ensure!(status == 404, "it is still there: {}", left["status"]);
        Ok(())
    })
}

/// Waits, then counts for twenty minutes.
async fn at_rest(cluster: &mut InProcess, when: &str) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE).await;
    cluster.audit();
    let before = numbers(cluster);
    tokio::time::sleep(WATCHED).await;
    ensure!(cluster.kcm_ended().is_none(), "{when}: the controller manager ended");
    let after = numbers(cluster);

    let is_trouble = |name: &str| name.contains("panics_total") || name.contains("undecodable");
    let trouble: Vec<_> = after.iter().filter(|(name, n)| is_trouble(name) && **n > 0.0).collect();
    ensure!(trouble.is_empty(), "{when}: {trouble:?}");
    for (name, now) in after.iter().filter(|(name, _)| name.starts_with("workqueue_adds_total")) {
        let keys = now - before.get(name).copied().unwrap_or_default();
        ensure!(keys <= KEYS_PER_QUEUE, "{when}: {name} grew by {keys}");
    }
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    for entry in cluster.audit().iter().filter(|entry| entry.by_manager() && entry.is_write()) {
        let about =
            format!("{} {} {} {} ({})", entry.actor(), entry.verb, entry.resource, entry.name, entry.code);
        *writes.entry(about).or_default() += 1;
    }
    writes.retain(|_, count| *count > WRITES_PER_OBJECT);
    ensure!(writes.is_empty(), "{when}: {writes:#?}");
    Ok(())
}

/// Every number of `/metrics`, by series.
fn numbers(cluster: &InProcess) -> BTreeMap<String, f64> {
    let text = cluster.metrics();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            line.rsplit_once(' ').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)))
        })
        .collect()
}

async fn create(api: &Api, object: &Value) -> anyhow::Result<()> {
    let path = path(api, object).await?;
    let (collection, _) = path.rsplit_once('/').unwrap_or_default();
    api.send(Call::new(Method::POST, collection).body(object, Content::Json)).await.context("create")?;
    let Some(status) = object.get("status") else { return Ok(()) };
    let (path, patch) = (format!("{path}/status"), json!({"status": status}));
    api.send(Call::new(Method::PATCH, &path).body(&patch, Content::MergePatch)).await.context("status")?;
    Ok(())
}

/// Changes an object, if it still exists.
async fn change(api: &Api, object: &Value, patch: &Value) -> anyhow::Result<()> {
    let path = path(api, object).await?;
    api.send(Call::new(Method::PATCH, &path).body(patch, Content::MergePatch).tolerate(&[404])).await?;
    Ok(())
}

async fn path(api: &Api, object: &Value) -> anyhow::Result<String> {
    let resource = api.resource_of(object).await?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
    Ok(resource.url(
        Some(namespace).filter(|_| resource.namespaced),
        object["metadata"]["name"].as_str(),
        None,
    ))
}

/// Schedules that are too long, or odd.
fn objects() -> anyhow::Result<Vec<Value>> {
    let written: Result<Vec<Value>, _> =
        serde_yaml::Deserializer::from_str(OBJECTS).map(Value::deserialize).collect();
    let mut objects: Vec<Value> = deep_objects();
    objects.extend(cron_jobs());
    objects.extend(long_lists());
    objects.extend(written?);
    Ok(objects)
}

fn cron_jobs() -> impl Iterator<Item = Value> {
    #[rustfmt::skip]
    let table = [
        // name                      schedule                                                      time zone        status
        ("never",                    "0 0 31 2 *",                                                 "Etc/UTC",       json!({})),
        ("leap-day",                 "59 23 29 2 1",                                               "Pacific/Apia",  json!({"lastScheduleTime": "1900-01-01T00:00:00Z"})),
        ("every-minute-since-1900",  "* * * * *",                                                  "Asia/Kolkata",  json!({"lastScheduleTime": "1900-01-01T00:00:00Z", "active": [{"name": "gone", "uid": "gone"}, {}]})),
        ("already-in-the-future",    "@hourly",                                                    "Etc/UTC",       json!({"lastScheduleTime": "9999-12-31T23:59:59Z", "lastSuccessfulTime": "0001-01-01T00:00:00Z"})),
        ("hardly-ever",              "@every 2562047h47m16s",                                      "Etc/UTC",       json!({})),
        ("every-list",               "0-59/1,1,2,3,4,5,6,7,8,9 */23 ?,*,1-31 JAN-DEC,1 sun-sat,0", "Africa/Cairo",  json!({})),
    ];
    table.into_iter().map(|(name, schedule, zone, status)| {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {
                "schedule": schedule,
                "timeZone": zone,
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": i64::MAX,
                "successfulJobsHistoryLimit": i32::MAX,
                "failedJobsHistoryLimit": i32::MAX,
                "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}},
            },
            "status": status,
        })
    })
}

/// Thousands of objects where usually there is one.
fn long_lists() -> Vec<Value> {
    let many = |one: fn(usize) -> Value| Value::from_iter((0..10_000).map(one));
    // Each of these is read from the server, or is a key of an index.
    let fewer = |one: fn(usize) -> Value| Value::from_iter((0..1_000).map(one));
    let long_text = "x".repeat(200_000);
    vec![
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a-thousand-owners",
                "annotations": {"example.com/long": long_text},
                "ownerReferences": fewer(|i| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("p{i}"), "uid": format!("uid-{i}")})),
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "ten-thousand-addresses"},
            "subsets": [{
                "addresses": many(|i| json!({"ip": format!("10.{}.{}.{}", i >> 16, (i >> 8) & 255, i & 255)})),
                "ports": [{"port": 80}],
            }],
        }),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ten-thousand-addresses"}, "spec": {"ports": [{"port": 80}]}}),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ten-thousand-secrets"},
            "secrets": many(|i| json!({"name": format!("s{i}")})),
        }),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-thousand-volumes"},
            "status": {
                "conditions": fewer(|i| json!({"type": format!("T{i}"), "status": "True"})),
                "volumesAttached": fewer(|i| json!({"name": format!("kubernetes.io/csi/d^{i}"), "devicePath": ""})),
            },
        }),
    ]
}

/// Nested as deeply as the server accepts.
fn deep_objects() -> Vec<Value> {
    const DEEP: usize = 100;
    let deep = (0..DEEP).fold(json!({}), |inner, _| json!({"x": inner}));
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "subresources": {"scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x", "labelSelectorPath": ".spec.selector"}},
    });
    vec![
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": [version],
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            },
        }),
        json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": "deep", "finalizers": ["foregroundDeletion"]},
            "spec": {"deep": deep, "selector": "this is (not a selector"},
        }),
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "of-a-thing"},
            "spec": {"maxReplicas": i32::MAX, "scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Thing", "name": "deep"}},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "deep", "labels": {"app": "far"}},
            "revision": i64::MAX, "data": {"spec": {"template": deep}},
        }),
    ]
}
