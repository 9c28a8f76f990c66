//! The shell: watches claims, volumes and attachments, and makes the writes of the driver.

use std::sync::Arc;

use flyball_api::{
    CSIDriver, Key, PersistentVolume, PersistentVolumeClaim, Quantity, Resource, StorageClass,
    VolumeAttachment,
};
use flyball_cache::{Informer, Informers};
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_queue::{Backoff, Priority, Queue, Unobserved};
use flyball_runtime::Signal;
use flyball_runtime::events::ObjectRef;
use serde_json::{Value, json};

use super::plan;
use crate::writer::{Write, Writer};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Claim(Key),
    Volume(Key),
    Attachment(Key),
}

struct Disks {
    writer: Writer,
    claims: Arc<Informer<PersistentVolumeClaim>>,
    volumes: Arc<Informer<PersistentVolume>>,
    classes: Arc<Informer<StorageClass>>,
    attachments: Arc<Informer<VolumeAttachment>>,
}

/// Creates the CSIDriver and the StorageClass unless they exist; users' changes to them stay.
pub async fn register(writer: &Writer) -> Result<(), Error> {
    make::<CSIDriver>(writer, &plan::driver()).await?;
    make::<StorageClass>(writer, &plan::class()).await
}

async fn make<T: Resource>(writer: &Writer, manifest: &Value) -> Result<(), Error> {
    match writer.client().create::<T>(None, manifest).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// Runs the driver until `stop`.
pub async fn run(writer: Writer, informers: Informers, stop: Signal) {
    let disks = Disks {
        writer,
        claims: informers.get(),
        volumes: informers.get(),
        classes: informers.get(),
        attachments: informers.get(),
    };
    let synced = [
        disks.claims.synced().await,
        disks.volumes.synced().await,
        disks.classes.synced().await,
        disks.attachments.synced().await,
    ];
    if synced.contains(&false) {
        return;
    }
    let queue: Queue<Item> = Queue::new(Backoff::default(), Unobserved);
    let add = |item: fn(Key) -> Item| {
        let queue = queue.clone();
        move |key: Key| queue.add(item(key), Priority::Change)
    };
    let (claim, volume, attachment) = (add(Item::Claim), add(Item::Volume), add(Item::Attachment));
    let _claims = disks.claims.subscribe(Box::new(move |change| claim(change.key())));
    let _volumes = disks.volumes.subscribe(Box::new(move |change| volume(change.key())));
    let _attachments = disks.attachments.subscribe(Box::new(move |change| attachment(change.key())));
    tokio::select! {
        biased;
        () = stop.wait() => {}
        () = disks.work(&queue) => {}
    }
}

impl Disks {
    async fn work(&self, queue: &Queue<Item>) {
        while let Some(item) = queue.next().await {
            let done = match &*item {
                Item::Claim(key) => self.claim(key).await,
                Item::Volume(key) => self.volume(key).await,
                Item::Attachment(key) => self.attachment(key).await,
            };
            match done {
                Err(error) if !error.is_not_found() && !error.is_already_exists() => {
                    tracing::debug!(item = ?*item, %error, "simulated disk: a write failed; retrying");
                    queue.retry(item.clone());
                }
                _ => queue.forget(&item),
            }
        }
    }

    /// Provisions a volume for a claim, or expands it.
    async fn claim(&self, key: &Key) -> Result<(), Error> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(()) };
        let class = claim.spec.storage_class_name.as_ref();
        let class = class.and_then(|name| self.classes.store().get(&Key::cluster(name.as_str())));
        if let Some(body) = plan::volume_for(&claim, class.as_deref()) {
            let name = Key::cluster(body["metadata"]["name"].as_str().unwrap_or_default());
            let why = format!("claim {key} waits for a volume");
            let write = Write { action: "create", key: &name, subresource: "", why };
            let request = self.writer.client().create::<PersistentVolume>(None, &body);
            self.writer.write::<PersistentVolume, _>(write, request).await?;
            let message = format!("Successfully provisioned volume {}", name.name);
            self.writer.events().normal(&ObjectRef::of(&*claim), "ProvisioningSucceeded", message);
            return Ok(());
        }
        let volume = Key::cluster(claim.spec.volume_name.as_str());
        if let Some(found) = self.volumes.store().get(&volume)
            && let Some(size) = plan::growth(&claim, &found)
        {
            self.grow(&claim, &volume, &size).await?;
        }
        Ok(())
    }

    async fn grow(&self, claim: &PersistentVolumeClaim, volume: &Key, size: &Quantity) -> Result<(), Error> {
        let (key, why) = (claim.metadata.key(), format!("its claim asks for {size}"));
        let capacity = json!({"capacity": {"storage": size.to_string()}});
        let write = Write { action: "patch", key: volume, subresource: "", why: why.clone() };
        let patch = Patch::Merge(json!({"spec": capacity}));
        let request = self.writer.client().patch::<PersistentVolume>(volume, None, &patch);
        self.writer.write::<PersistentVolume, _>(write, request).await?;
        let write = Write { action: "patch", key: &key, subresource: "status", why };
        let patch = Patch::Merge(json!({"status": capacity}));
        let request = self.writer.client().patch::<PersistentVolumeClaim>(&key, Some("status"), &patch);
        self.writer.write::<PersistentVolumeClaim, _>(write, request).await?;
        let message = "Resize volume succeeded";
        self.writer.events().normal(&ObjectRef::of(claim), "VolumeResizeSuccessful", message);
        Ok(())
    }

    /// Deletes a released volume.
    async fn volume(&self, key: &Key) -> Result<(), Error> {
        let Some(volume) = self.volumes.store().get(key).filter(|volume| plan::is_unwanted(volume)) else {
            return Ok(());
        };
        let options = DeleteOptions { uid: Some(volume.metadata.uid.clone()), ..DeleteOptions::default() };
        let why = "its claim has gone".to_owned();
        let write = Write { action: "delete", key, subresource: "", why };
        let request = self.writer.client().delete::<PersistentVolume>(key, &options);
        self.writer.write::<PersistentVolume, _>(write, request).await.map(drop)
    }

    /// Attaches a volume to a node: only the status is written.
    async fn attachment(&self, key: &Key) -> Result<(), Error> {
        let Some(found) = self.attachments.store().get(key).filter(|found| plan::is_awaited(found)) else {
            return Ok(());
        };
        let why = format!("node {} wants the disk", found.spec.node_name);
        let write = Write { action: "patch", key, subresource: "status", why };
        let patch = Patch::Merge(json!({"status": {"attached": true}}));
        let request = self.writer.client().patch::<VolumeAttachment>(key, Some("status"), &patch);
        self.writer.write::<VolumeAttachment, _>(write, request).await.map(drop)
    }
}
