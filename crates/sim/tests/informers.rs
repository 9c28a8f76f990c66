//! Informers on a real API server: streaming and paged lists, metadata, selectors, and an outage in which the
//! server forgets its history. Skipped without assets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use flyball_api::{ConfigMap, Key, Object, Resource};
use flyball_cache::{Change, Filter, Informer, InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, ConnectOptions, DeleteOptions, ListParams, Patch, connect};
use flyball_sim::cluster::{Cluster, Options, Unavailable};
use parking_lot::Mutex;
use serde_json::json;

const OBJECTS: usize = 1_100;
const NAMESPACE: &str = "default";

type Shape = BTreeMap<Key, u64>;

async fn client(cluster: &Cluster) -> anyhow::Result<Client> {
    let kubeconfig = Some(cluster.dir().join("admin.kubeconfig"));
    let connection = connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await?;
    let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
    Ok(Client::with_watches(connection.transport(), connection.watch_transport(), options))
}

fn config_map(name: &str) -> serde_json::Value {
    let labels = if name.ends_with('7') { json!({"lucky": "yes"}) } else { json!({}) };
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "b"}})
}

async fn create(client: &Client, name: &str) -> anyhow::Result<ConfigMap> {
    client.create(NAMESPACE, &config_map(name)).await.with_context(|| format!("create {name}"))
}

async fn listed(client: &Client) -> anyhow::Result<Shape> {
    let list = client.list::<ConfigMap>(None, &ListParams::default()).await?;
    Ok(list.items.iter().map(|object| (object.key(), object.metadata.resource_version.0)).collect())
}

fn held<T: Object>(informer: &Informer<T>) -> Shape {
    informer.store().list().iter().map(|object| (object.key(), object.meta().resource_version.0)).collect()
}

/// The state that a subscriber's changes add up to, and their number.
#[derive(Default)]
struct Heard {
    view: Shape,
    changes: usize,
}

impl Heard {
    fn hear(&mut self, change: &Change<'_, ConfigMap>) {
        self.changes += 1;
        match change.new {
            Some(new) => drop(self.view.insert(new.key(), new.metadata.resource_version.0)),
            None => drop(self.view.remove(&change.key())),
        }
    }
}

async fn cluster(test: &str, apiserver_flags: Vec<String>) -> anyhow::Result<Option<Cluster>> {
    match Cluster::real(Options { apiserver_flags, ..Options::default() }).await {
        Ok(cluster) => Ok(Some(cluster)),
        Err(Unavailable::Skip(skip)) => {
            skip.announce(test);
            Ok(None)
        }
        Err(Unavailable::Broken(error)) => Err(error),
    }
}

#[tokio::test]
async fn informers_follow_a_real_server_through_an_outage_and_a_lost_history() -> anyhow::Result<()> {
    let test = "informers_follow_a_real_server_through_an_outage_and_a_lost_history";
    for streaming in [true, false] {
        let flags = if streaming { vec![] } else { vec!["--feature-gates=WatchList=false".to_owned()] };
        let Some(cluster) = cluster(test, flags).await? else { return Ok(()) };
        follow(cluster, streaming).await.with_context(|| format!("streaming lists: {streaming}"))?;
    }
    Ok(())
}

async fn follow(mut cluster: Cluster, streaming: bool) -> anyhow::Result<()> {
    let client = client(&cluster).await?;
    for n in 0..OBJECTS {
        create(&client, &format!("c-{n}")).await?;
    }
    let informers = Informers::new(client.clone(), InformerOptions::default());
    let whole = informers.get::<ConfigMap>();
    let lucky =
        informers.filtered::<ConfigMap>(Filter { labels: Some("lucky=yes".into()), ..Filter::default() });
    let metadata = informers.dynamic(&ConfigMap::TYPE);
    let heard = Arc::new(Mutex::new(Heard::default()));
    let _subscription = whole.subscribe(Box::new({
        let heard = heard.clone();
        move |change| heard.lock().hear(change)
    }));
    tokio::time::timeout(Duration::from_secs(60), informers.all_synced()).await?;
    let counts = whole.counts();
    assert_eq!((counts.streamed_lists, counts.paged_lists), (1, if streaming { 0 } else { 1 }), "{counts:?}");
    assert_eq!(held(&whole), listed(&client).await?);
    assert_eq!(held(&metadata), held(&whole));
    assert_eq!(lucky.store().len(), OBJECTS / 10);

    // Our own writes become visible; an object that loses a label is deleted for informers that select it.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"lucky": null}}}));
    let patched = client.patch::<ConfigMap>(&Key::new(NAMESPACE, "c-7"), None, &patch).await?;
    let version = patched.metadata.resource_version;
    let seen =
        async { tokio::join!(whole.reached(version), metadata.reached(version), lucky.reached(version)) };
    tokio::time::timeout(Duration::from_secs(10), seen).await?;
    assert!(lucky.store().get(&Key::new(NAMESPACE, "c-7")).is_none());
    assert_eq!(lucky.store().len(), OBJECTS / 10 - 1);
    assert_eq!(held(&whole), listed(&client).await?);

    // Twenty seconds without a server; then changes, and a second restart, after which the watch cache begins later.
    let changes = heard.lock().changes;
    cluster.stop_apiserver().await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(whole.health().failing.is_some_and(|failing| failing.since > Duration::from_secs(15)));
    cluster.start_apiserver().await?;
    for n in 0..20 {
        client.delete::<ConfigMap>(&Key::new(NAMESPACE, format!("c-{n}")), &DeleteOptions::default()).await?;
        create(&client, &format!("late-{n}")).await?;
    }
    cluster.compact().await?;
    cluster.stop_apiserver().await?;
    cluster.start_apiserver().await?;
    let last = create(&client, "last").await?;
    let version = last.metadata.resource_version;
    let seen = async { tokio::join!(whole.reached(version), metadata.reached(version)) };
    tokio::time::timeout(Duration::from_secs(180), seen).await.context("the informers did not come back")?;
    assert_eq!(held(&whole), listed(&client).await?);
    assert_eq!(held(&metadata), held(&whole));
    assert_eq!(heard.lock().view, held(&whole));
    assert_eq!(heard.lock().changes - changes, 41, "each change is delivered once");
    assert!(whole.health().is_healthy(), "{:?}", whole.health());
    println!("streaming {streaming}: {:?}", whole.counts());
    Ok(())
}
