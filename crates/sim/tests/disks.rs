//! A disk that may be attached to one node only, used by pods on several nodes, with a slow driver, nodes that keep disks in
//! use, a manager that is restarted and stale caches: after every write it is attached to one node at most.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use flyball_api::{Node, PersistentVolume, VolumeAttachment};
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::embedded::Embedded;
use flyball_sim::faults::{Faults, Kind};
use flyball_sim::features::Features;
use flyball_sim::load::{self, Request};
use flyball_storage::attach_detach::invariants::one_node_each;
use futures::StreamExt as _;
use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const DISK: &str = "kubernetes.io/csi/csi.example.com^h";
const NAMES: [&str; 3] = ["n0", "n1", "n2"];
const ROUNDS: usize = 40;

/// The watch events of an object, in the order of its versions.
type Record = Arc<Mutex<Vec<(u64, &'static str, Value)>>>;

fn follow(cluster: &Embedded, path: &'static str, record: &Record) {
    let (client, record) = (cluster.client(), Arc::clone(record));
    tokio::spawn(async move {
        let Ok(mut events) = client.watch(&format!("{path}?watch=true")).await else { return };
        while let Some(event) = events.next().await {
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            let version = version.and_then(|version| version.parse().ok()).unwrap_or(u64::MAX);
            record.lock().push((version, path, event));
        }
    });
}

/// A write of a client other than the manager; the object may be gone.
async fn change(api: &Api, path: &str, body: Value) -> anyhow::Result<()> {
    let call = Call::new(Method::PATCH, path).body(&body, Content::MergePatch).tolerate(&[404, 409]);
    api.send(call).await.map(drop).context("change something")
}

async fn set_up(api: &Api) -> anyhow::Result<()> {
    let node = |name: &str| {
        let annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}, "status": status})
    };
    load::send_all(api, NAMES.map(|name| Request::create(NODES, node(name)))).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    load::send_all(api, NAMES.map(|name| Request::merge(format!("{NODES}/{name}/status"), ready.clone())))
        .await?;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": spec});
    load::send_all(api, [Request::create(CLAIMS, claim)]).await?;
    let bound = json!({"status": {"phase": "Bound"}});
    load::send_all(api, [Request::merge(format!("{CLAIMS}/claim/status"), bound)]).await?;
    let uid = api.get(&format!("{CLAIMS}/claim")).await?["metadata"]["uid"].clone();
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "capacity": {"storage": "1Gi"},
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "claim", "uid": uid},
    });
    let volume =
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec});
    load::send_all(api, [Request::create(VOLUMES, volume)]).await?;
    Ok(())
}

/// How the driver answers this time.
async fn drive(api: &Api, rng: &mut StdRng) -> anyhow::Result<()> {
    for request in load::list(api, ATTACHMENTS).await? {
        let name = request["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{ATTACHMENTS}/{name}");
        let has_begun = request["metadata"]["finalizers"].is_array();
        let is_going = request["metadata"]["deletionTimestamp"].is_string();
        let error = json!({"message": "it is stuck", "time": "2026-06-01T12:00:00Z"});
        match (is_going, has_begun, rng.random_range(0..4)) {
            (_, _, 0) => {}
            (true, true, 1) => {
                change(api, &format!("{path}/status"), json!({"status": {"detachError": error}})).await?
            }
            (true, true, _) => change(api, &path, json!({"metadata": {"finalizers": null}})).await?,
            (false, false, _) => {
                change(
                    api,
                    &path,
                    json!({"metadata": {"finalizers": ["external-attacher/csi-example-com"]}}),
                )
                .await?;
            }
            (false, true, 1) => {
                change(api, &format!("{path}/status"), json!({"status": {"attachError": error}})).await?
            }
            (false, true, _) => {
                let done = json!({"status": {"attached": true, "attachError": null}});
                change(api, &format!("{path}/status"), done).await?;
            }
            (true, false, _) => {}
        }
    }
    Ok(())
}

async fn start_pod(api: &Api, name: &str, node: &str) -> anyhow::Result<()> {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]);
    let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
    load::send_all(api, [Request::create(PODS, pod)]).await.context("create a pod")
}

async fn stop_pod(api: &Api, name: &str) -> anyhow::Result<()> {
    let (path, now) = (format!("{PODS}/{name}"), json!({"gracePeriodSeconds": 0}));
    let call = Call::new(Method::DELETE, &path).body(&now, Content::Json).tolerate(&[404, 409]);
    api.send(call).await.map(drop).context("delete a pod")
}

/// Creates and deletes pods, and reports volumes in use.
async fn meddle(api: &Api, rng: &mut StdRng, round: usize) -> anyhow::Result<()> {
    for pod in load::list(api, PODS).await? {
        if rng.random_bool(0.6) {
            stop_pod(api, pod["metadata"]["name"].as_str().unwrap_or_default()).await?;
        }
    }
    let node = NAMES[rng.random_range(0..NAMES.len())];
    start_pod(api, &format!("p{round}"), node).await?;
    let used = if rng.random_bool(0.3) { json!([DISK]) } else { Value::Null };
    let node = NAMES[rng.random_range(0..NAMES.len())];
    change(api, &format!("{NODES}/{node}/status"), json!({"status": {"volumesInUse": used}})).await
}

/// Replays the events, and checks after each write.
fn judge(volume: &PersistentVolume, mut events: Vec<(u64, &'static str, Value)>) -> anyhow::Result<usize> {
    events.sort_by_key(|(version, ..)| *version);
    let (mut attachments, mut nodes) = (vec![], vec![]);
    for (version, path, event) in &events {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let is_gone = event["type"] == "DELETED";
        if *path == ATTACHMENTS {
            attachments.retain(|known: &VolumeAttachment| known.metadata.name != name);
            if !is_gone {
                attachments.push(serde_json::from_value(event["object"].clone())?);
            }
        } else {
            nodes.retain(|known: &Node| known.metadata.name != name);
            if !is_gone {
                nodes.push(serde_json::from_value(event["object"].clone())?);
            }
        }
        one_node_each([volume], &attachments, &nodes)
            .map_err(|wrong| anyhow::anyhow!("after version {version}: {wrong}"))?;
    }
    Ok(events.iter().filter(|(_, path, event)| *path == ATTACHMENTS && event["type"] == "ADDED").count())
}

/// One run; returns the number of attachments that were created.
fn play(seed: u64) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let mut rng = StdRng::seed_from_u64(seed);
        let start = "2026-06-01T12:00:00Z".parse::<Timestamp>()?;
        let mut cluster = Embedded::start(start, seed, &Features::default())?;
        // A restore would end the watches with which this test follows the writes.
        cluster.put_faults(Faults::random(seed, &[Kind::Restore]));
        let api = Api::discover(cluster.client()).await?;
        set_up(&api).await?;
        let events = Record::default();
        follow(&cluster, ATTACHMENTS, &events);
        follow(&cluster, NODES, &events);
        let controllers = ["persistentvolume-attach-detach-controller".to_owned()];
        let mut manager = cluster.start_manager(&controllers, &[])?;
        for round in 0..ROUNDS {
            meddle(&api, &mut rng, round).await?;
            for _ in 0..rng.random_range(1..4) {
                drive(&api, &mut rng).await?;
                tokio::time::sleep(Duration::from_millis(rng.random_range(0..3000))).await;
            }
            if rng.random_bool(0.15) {
                manager.stop(Duration::ZERO).await;
                manager = cluster.start_manager(&controllers, &[])?;
            }
        }
        manager.stop(Duration::from_secs(10)).await;
        let volume = serde_json::from_value(api.get(&format!("{VOLUMES}/pv")).await?)?;
        let events = events.lock().clone();
        judge(&volume, events)
    })
}

#[test]
fn after_every_write_an_exclusive_disk_is_on_one_node_at_most() -> anyhow::Result<()> {
    let mut asked = 0;
    for seed in 1..=8 {
        asked += play(seed).with_context(|| format!("seed {seed}"))?;
    }
    assert!(asked > 40, "disks were to move: {asked}");
    Ok(())
}

/// The messages of `FailedAttachVolume` about a pod, each with how often it came.
async fn warnings(api: &Api, pod: &str) -> anyhow::Result<Vec<String>> {
    let mut events = load::list(api, "/api/v1/namespaces/default/events").await?;
    events.retain(|event| {
        event["reason"] == "FailedAttachVolume" && event["involvedObject"]["name"].as_str() == Some(pod)
    });
    Ok(events.iter().map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect())
}

/// The driver's only VolumeAttachment.
async fn attachment(api: &Api) -> anyhow::Result<(String, Value)> {
    let mut found = load::list(api, ATTACHMENTS).await?;
    anyhow::ensure!(found.len() == 1, "one VolumeAttachment: {found:?}");
    let found = found.remove(0);
    Ok((format!("{ATTACHMENTS}/{}", found["metadata"]["name"].as_str().unwrap_or_default()), found))
}

fn failed_detaches(metrics: &str) -> u32 {
    let series = r#"storage_operation_duration_seconds_count{migrated="false",operation_name="volume_detach",status="fail-unknown""#;
    let line = metrics.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// In virtual time.
#[test]
fn a_driver_that_does_not_detach_a_disk_is_reported_and_the_disk_stays_where_it_is() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let cluster = Embedded::start("2026-06-01T12:00:00Z".parse()?, 1, &Features::default())?;
        let api = Api::discover(cluster.client()).await?;
        set_up(&api).await?;
        let controllers = ["persistentvolume-attach-detach-controller".to_owned()];
        let manager = cluster.start_manager(&controllers, &[])?;
        let pass = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        start_pod(&api, "first", "n0").await?;
        pass(5).await;
        let (path, _) = attachment(&api).await?;
        change(&api, &path, json!({"metadata": {"finalizers": ["external-attacher/csi-example-com"]}})).await?;
        change(&api, &format!("{path}/status"), json!({"status": {"attached": true}})).await?;
        pass(5).await;
        stop_pod(&api, "first").await?;
        pass(5).await;
        let (_, hung) = attachment(&api).await?;
        anyhow::ensure!(hung["metadata"]["deletionTimestamp"].is_string(), "it is to be detached: {hung}");
        start_pod(&api, "second", "n1").await?;
        pass(100).await;
        assert_eq!((warnings(&api, "second").await?, failed_detaches(&manager.metrics())), (vec![], 0));
        pass(20).await;
        let waits = "Waiting for detach for volume \"pv\" Volume is already exclusively attached to one node, waiting on \
                     detach before it can be attached to another node";
        assert_eq!((warnings(&api, "second").await?, failed_detaches(&manager.metrics())), (vec![waits.into()], 1));
        pass(125).await;
        assert_eq!((warnings(&api, "second").await?, failed_detaches(&manager.metrics())), (vec![waits.into()], 2));
        assert_eq!(attachment(&api).await?.0, path, "the disk is where it was");
        change(&api, &path, json!({"metadata": {"finalizers": null}})).await?;
        pass(5).await;
        let (_, moved) = attachment(&api).await?;
        assert_eq!(moved["spec"]["nodeName"], "n1");
        manager.stop(Duration::from_secs(10)).await;
        Ok(())
    })
}
