//! The read-your-writes barrier: no key is planned again before the cache shows what its last plan wrote.
//!
//! Every write of a controller leaves here what the cache must come to show. The runner asks before each
//! sync; a key that has to wait is woken by the cache, not by a timer. This one mechanism stands where
//! upstream has expectations in every controller.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType, ResourceVersion, Uid};
use flyball_cache::{Informers, Progress};
use flyball_client::{Client, Error, ListParams};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::error::Chain;

/// How long a key waits for the cache before the cache is told to look again.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the cache of a resource must come to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Everything up to this version.
    Version(ResourceVersion),
    /// This object gone, or marked as being deleted, or replaced by another of its name.
    Gone(Key, Uid),
    /// This object gone or replaced by another of its name: the server has it no more.
    Vanished(Key, Uid),
    /// A write to this object got no answer: ask the server what became of it.
    UnknownObject(Key),
    /// A creation under a name that the server would choose got no answer: ask for all there is.
    UnknownCreation(Option<String>),
}

/// What the keys of one controller wait for. Cheap to clone.
#[derive(Clone)]
pub struct Barrier {
    waits: Arc<Mutex<FxHashMap<Key, Vec<Wait>>>>,
    informers: Informers,
    reader: Client,
}

type Wait = (ResourceType, Awaited);

impl Awaited {
    /// What a cache must come to show after a write that was answered with this metadata. What is being deleted
    /// goes with its last finalizer, and then the answer has the version from *before*, which every cache has reached.
    pub(crate) fn after(resource: &ResourceType, meta: &ObjectMeta) -> Self {
        // A shadow has written nothing.
        let was_written = meta.resource_version != ResourceVersion(0);
        let has_time_left = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        // A namespace has finalizers in its spec, too, of which its metadata says nothing.
        let is_held = !meta.finalizers.is_empty() || has_time_left || resource.kind == "Namespace";
        match meta.is_deleting() && !is_held && was_written {
            true => Self::Vanished(meta.key(), meta.uid.clone()),
            false => Self::Version(meta.resource_version),
        }
    }
}

impl Barrier {
    /// A barrier that asks the server through `reader`, which needs no more rights than the caches do: a
    /// controller's own identity may often write what it may not read.
    pub(crate) fn new(informers: Informers, reader: Client) -> Self {
        Self { waits: Arc::default(), informers, reader }
    }

    /// Makes `owner` wait until the cache of `resource` shows `awaited`. Without a cache of that resource in
    /// this process nothing is read from it, so there is nothing to wait for.
    pub(crate) fn raise(&self, owner: &Key, resource: &ResourceType, awaited: Awaited) {
        let Some(progress) = self.informers.progress(resource) else { return };
        if shows(&*progress, &awaited) {
            return;
        }
        let mut waits = self.waits.lock();
        let of_owner = waits.entry(owner.clone()).or_default();
        // Many pods made in one sync need one wait, for the latest of them.
        if let Awaited::Version(version) = awaited {
            let same = of_owner.iter_mut().find_map(|(held, what)| match what {
                Awaited::Version(reached) if held == resource => Some(reached),
                _ => None,
            });
            if let Some(held) = same {
                *held = version.max(*held);
                return;
            }
        }
        of_owner.push((resource.clone(), awaited));
    }

    /// The identity under which the cache of `resource` holds `key`.
    pub(crate) fn held(&self, resource: &ResourceType, key: &Key) -> Option<Uid> {
        self.informers.progress(resource)?.holds(key).map(|(uid, ..)| uid)
    }

    /// Whether `owner` has to wait.
    pub(crate) fn is_raised(&self, owner: &Key) -> bool {
        self.awaited(owner).is_some()
    }

    /// The resource whose cache `owner` has to wait for. What the cache shows by now is forgotten.
    pub(crate) fn awaited(&self, owner: &Key) -> Option<ResourceType> {
        let mut waits = self.waits.lock();
        let of_owner = waits.get_mut(owner)?;
        of_owner.retain(|(resource, awaited)| {
            self.informers.progress(resource).is_some_and(|progress| !shows(&*progress, awaited))
        });
        let first = of_owner.first().map(|(resource, _)| resource.clone());
        if first.is_none() {
            waits.remove(owner);
        }
        first
    }

    /// Waits until the cache shows all that `owner` waits for. Never longer than it takes: a cache that does
    /// not get there is told to list anew, with a line in the log.
    pub(crate) async fn lowered(&self, owner: &Key) {
        while self.is_raised(owner) {
            let of_owner = self.waits.lock().get(owner).cloned().unwrap_or_default();
            for (resource, awaited) in of_owner {
                let Some(progress) = self.informers.progress(&resource) else { continue };
                let awaited = self.settle(owner, &resource, awaited).await;
                if tokio::time::timeout(PATIENCE, shown(&*progress, &awaited)).await.is_err() {
                    tracing::warn!(%owner, %resource, ?awaited, "the cache has not shown a write in time; listing anew");
                    progress.refresh();
                }
            }
        }
    }

    /// Turns a write of unknown outcome into something the cache can be asked for, by reading the server.
    async fn settle(&self, owner: &Key, resource: &ResourceType, awaited: Awaited) -> Awaited {
        let known = match &awaited {
            Awaited::Version(_) | Awaited::Gone(..) | Awaited::Vanished(..) => return awaited,
            Awaited::UnknownObject(key) => self.live_object(resource, key).await,
            Awaited::UnknownCreation(namespace) => self.live_latest(resource, namespace.as_deref()).await,
        };
        match known {
            Ok(known) => {
                let mut waits = self.waits.lock();
                for (_, held) in
                    waits.get_mut(owner).into_iter().flatten().filter(|(_, held)| *held == awaited)
                {
                    *held = known.clone();
                }
                known
            }
            Err(error) => {
                tracing::warn!(%owner, %resource, error = %Chain(&error), "cannot learn what became of a write; asking again");
                tokio::time::sleep(Duration::from_secs(1)).await;
                awaited
            }
        }
    }

    /// What became of one object. Read by a list, as that is what the caches' identity may do with everything.
    async fn live_object(&self, resource: &ResourceType, key: &Key) -> Result<Awaited, Error> {
        // First the cache, then the server: what the cache held and the server lacks after that will not come back.
        let held = self.held(resource, key);
        let only = smol_str::format_smolstr!("metadata.name={}", key.name);
        let found = self.live(resource, Some(&key.namespace), Some(only)).await?;
        if let Some(version) = found {
            return Ok(Awaited::Version(version));
        }
        Ok(held.map_or(Awaited::Version(ResourceVersion(0)), |uid| Awaited::Vanished(key.clone(), uid)))
    }

    async fn live_latest(&self, resource: &ResourceType, namespace: Option<&str>) -> Result<Awaited, Error> {
        let latest = self.live(resource, namespace, None).await?;
        Ok(Awaited::Version(latest.unwrap_or(ResourceVersion(0))))
    }

    /// The newest version among the objects that the server has; `None` when there are none.
    async fn live(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        field_selector: Option<SmolStr>,
    ) -> Result<Option<ResourceVersion>, Error> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let params = ListParams { metadata_only: true, field_selector, ..ListParams::default() };
        let all = self.reader.list_as::<PartialObject>(resource, namespace, &params).await?;
        Ok(all.items.iter().map(|object| object.metadata.resource_version).max())
    }
}

fn shows(cache: &dyn Progress, awaited: &Awaited) -> bool {
    match awaited {
        Awaited::Version(version) => cache.version_reached() >= *version,
        Awaited::Gone(key, uid) => {
            cache.holds(key).is_none_or(|(held, deleting, _)| held != *uid || deleting)
        }
        Awaited::Vanished(key, uid) => cache.holds(key).is_none_or(|(held, ..)| held != *uid),
        Awaited::UnknownObject(_) | Awaited::UnknownCreation(_) => false,
    }
}

/// Waits until the cache shows it. Returns at once for what the cache cannot be asked for.
async fn shown(cache: &dyn Progress, awaited: &Awaited) {
    match awaited {
        Awaited::Version(version) => cache.reached(*version).await,
        Awaited::Gone(..) | Awaited::Vanished(..) => {
            let mut version = cache.version_reached();
            while !shows(cache, awaited) {
                version = ResourceVersion(version.0 + 1);
                cache.reached(version).await;
                version = cache.version_reached();
            }
        }
        Awaited::UnknownObject(_) | Awaited::UnknownCreation(_) => {}
    }
}
