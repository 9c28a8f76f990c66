//! Volumes from the first claim to the last byte: the binder, the attacher, the protectors and the simulated driver
//! together, seen as a client sees them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim, Resource, StatefulSet, VolumeAttachment};
use flyball_cache::{Informer, InformerOptions, Informers};
use flyball_client::{DeleteOptions, Patch};
use flyball_playground::cluster::{Cluster, Options};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the objects of a kind are as they should be.
async fn until<T: Resource>(
    informer: &Arc<Informer<T>>,
    what: &str,
    holds: impl Fn(&[Arc<T>]) -> bool,
) -> anyhow::Result<Vec<Arc<T>>> {
    let changed = Arc::new(tokio::sync::Notify::new());
    let _subscription = informer.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    let seen = async {
        loop {
            let all = informer.store().list();
            if holds(&all) {
                return all;
            }
            changed.notified().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.with_context(|| what.to_owned())
}

fn has_size(claim: &PersistentVolumeClaim, size: &str) -> bool {
    claim.status.capacity.get("storage").is_some_and(|has| has.to_string() == size)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_gets_disks_that_are_attached_grow_and_go() -> anyhow::Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let (client, sets) = (cluster.admin(), StatefulSet::TYPE);
    let informers = Informers::new(client.clone(), InformerOptions::default());
    let (claims, volumes) = (informers.get::<PersistentVolumeClaim>(), informers.get::<PersistentVolume>());
    let (attachments, running) = (informers.get::<VolumeAttachment>(), informers.get::<StatefulSet>());

    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{
                    "name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        },
    });
    client.create_dynamic(&sets, Some("default"), &set).await?;
    until(&running, "both pods are ready", |all| all.iter().any(|set| set.status.ready_replicas == 2))
        .await?;
    let bound = until(&claims, "both claims are bound", |all| {
        all.len() == 2 && all.iter().all(|claim| claim.status.phase == "Bound")
    });
    ensure!(bound.await?.iter().all(|claim| claim.spec.storage_class_name.as_deref() == Some("standard")));
    let attached = |all: &[Arc<VolumeAttachment>]| {
        all.len() == 2 && all.iter().all(|attachment| attachment.status.attached)
    };
    until(&attachments, "both disks are attached", attached).await?;

    let first = Key::new("default", "data-db-0");
    let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
    client.patch::<PersistentVolumeClaim>(&first, None, &more).await?;
    until(&claims, "the claim has grown", |all| all.iter().any(|claim| has_size(claim, "2Gi"))).await?;

    let options = DeleteOptions::default();
    client.delete::<StatefulSet>(&Key::new("default", "db"), &options).await?;
    until(&attachments, "the disks are detached", <[_]>::is_empty).await?;
    until(&claims, "the claims go with their set", <[_]>::is_empty).await?;
    until(&volumes, "the volumes go with their claims", <[_]>::is_empty).await?;
    cluster.stop().await;
    Ok(())
}
