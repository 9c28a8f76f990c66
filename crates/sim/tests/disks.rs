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

/// Creates and deletes pods, and reports volumes in use.
async fn meddle(api: &Api, rng: &mut StdRng, round: usize) -> anyhow::Result<()> {
    for pod in load::list(api, PODS).await? {
        if rng.random_bool(0.6) {
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
            let now = json!({"gracePeriodSeconds": 0});
            let call = Call::new(Method::DELETE, &path).body(&now, Content::Json).tolerate(&[404, 409]);
            api.send(call).await?;
        }
    }
    let node = NAMES[rng.random_range(0..NAMES.len())];
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]);
    let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{round}")}, "spec": spec});
    load::send_all(api, [Request::create(PODS, pod)]).await?;
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
