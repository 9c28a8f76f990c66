//! The read-your-writes barrier: no key is synced again before the cache shows what its last sync wrote.
//!
//! Every write of a controller records here what the cache has to show. Workers check it before each sync; a key that has
//! to wait is woken by the cache, not by a timer. This replaces the expectations that upstream has in every controller.
//!
//! A write whose connection fell silent may still be made for a while: its outcome is read only when that is over. A creation that
//! was given up too early would be made twice.
//!
//! Every wait ends: a list that began after the write shows it, and a cache that stays behind is listed again. A response
//! with a version that the cache has passed shows that etcd was restored; then no controller acts before all caches have
//! been listed again. Nor does a controller act while a cache of its own has lost its watch: etcd may have been restored, and
//! caches of before and after that contradict each other.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use flyball_api::{Key, ObjectMeta, PartialObject, ResourceType, ResourceVersion, Uid, room};
use flyball_cache::{AnyInformer, Informers, Progress};
use flyball_client::{Chain, Client, Error, List, ListParams};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// How long a key waits for the cache before the cache is listed again.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cache that has lost its watch is always given this long to check whether etcd was restored.
const CHECK: Duration = Duration::from_secs(3);

/// How often the health of an awaited cache is checked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the cache of a resource has to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Everything up to this version.
    Version(ResourceVersion),
    /// This object is gone, or being deleted, or replaced by another of its name.
    Gone(Key, Uid),
    /// This object is gone or replaced by another of its name: the server no longer has it.
    Vanished(Key, Uid),
    /// A write to this object got no response: its outcome has to be read from the server.
    UnknownObject(Key),
    /// Everything that the server has now (in one namespace): its version has to be read. For a creation with a generated name
    /// that got no response, and for a sync that must not decide on an older cache.
    Present(Option<String>),
    /// A new list, since the server went back to an earlier version.
    Listed,
}

/// The state of a cache before a write.
pub(crate) struct Before {
    reached: ResourceVersion,
    held: Option<(Uid, ResourceVersion)>,
    era: u64,
}

impl Before {
    fn of(cache: &dyn Progress, key: Option<&Key>) -> Self {
        // In this order: an event in between must not make the cache seem to have passed the version of its own object.
        let (era, reached) = (cache.era(), cache.version_reached());
        let held = key.and_then(|key| cache.holds(key)).map(|(uid, _, version)| (uid, version));
        Self { reached, held, era }
    }

    /// The uid of the object in the cache.
    pub(crate) fn uid(self) -> Option<Uid> {
        self.held.map(|(uid, _)| uid)
    }

    /// Whether a response with this version shows that the server has gone back, as after a restore of etcd. A write returns a
    /// version that no cache has reached before; a write without a change returns the version that the cache has.
    fn is_contradicted_by(&self, version: ResourceVersion) -> bool {
        let is_known = self.held.as_ref().is_some_and(|(_, held)| *held == version);
        !version.is_unknown() && version <= self.reached && !is_known
    }
}

type Waits = FxHashMap<Key, Vec<Wait>>;

/// Removes all waits of `owner`. The table is as large as it must be after the creation of many objects, and small soon after.
fn remove(waits: &mut Waits, owner: &Key) {
    waits.remove(owner);
    if let Some(room) = room::to_keep(waits.len(), waits.capacity()) {
        waits.shrink_to(room);
    }
}

/// What the keys of one controller wait for. Cheap to clone.
#[derive(Clone)]
pub struct Barrier {
    waits: Arc<Mutex<Waits>>,
    informers: Informers,
    /// The caches on which the controller's decisions depend.
    needed: Arc<Mutex<Vec<Weak<dyn AnyInformer>>>>,
    reader: Client,
}

/// A wait for the cache of a resource. A list that begins after the write shows it in any case, so the list of that number
/// ends the wait.
#[derive(Clone)]
struct Wait {
    resource: ResourceType,
    awaited: Awaited,
    list: u64,
    /// The server may carry the write out until then: neither a read nor a list shows its outcome before.
    open_until: Option<Instant>,
}

impl Wait {
    fn is_over(&self, cache: &dyn Progress) -> bool {
        self.open_until.is_none() && (cache.has_listed(self.list) || shows(cache, &self.awaited))
    }
}

impl Awaited {
    /// What a cache has to show after a write whose response had this metadata. An object that is being deleted is removed
    /// with its last finalizer. Then the response has the version from *before* the write, which every cache has reached.
    pub(crate) fn after(resource: &ResourceType, meta: &ObjectMeta) -> Self {
        // A shadow does not write.
        let was_written = meta.resource_version != ResourceVersion(0);
        let has_time_left = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        // A namespace also has finalizers in its spec, which metadata does not show.
        let is_held = !meta.finalizers.is_empty() || has_time_left || resource.kind == "Namespace";
        match meta.is_deleting() && !is_held && was_written {
            true => Self::Vanished(meta.key(), meta.uid.clone()),
            false => Self::Version(meta.resource_version),
        }
    }
}

impl Barrier {
    /// `reader` has the identity that fills the caches: a controller's own identity often has no right to read what it
    /// writes.
    pub(crate) fn new(informers: Informers, reader: Client) -> Self {
        Self { waits: Arc::default(), informers, needed: Arc::default(), reader }
    }

    /// Adds a cache on which the controller's decisions depend.
    pub(crate) fn needs(&self, cache: &Arc<dyn AnyInformer>) {
        let cache = Arc::downgrade(cache);
        let mut needed = self.needed.lock();
        needed.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&cache));
        needed.push(cache);
    }

    /// The caches on which the controller's decisions depend, so far as they are in use.
    pub(crate) fn needed(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.needed.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// A cache that may contradict others: it is of the time before a restore of etcd, or may be.
    fn untrusted(&self) -> Option<Arc<dyn AnyInformer>> {
        self.left_behind().or_else(|| self.in_doubt())
    }

    /// A cache that has not been listed since etcd was restored: any at first, and after [`PATIENCE`] one that the controller
    /// needs, so that a server which does not respond for one resource holds up no others. One that cannot be listed is ignored
    /// after a while.
    fn left_behind(&self) -> Option<Arc<dyn AnyInformer>> {
        let mut stale = self.informers.left_behind();
        if !stale.is_empty() && self.informers.era_lasts() > PATIENCE {
            let needed = self.needed();
            stale.retain(|stale| needed.iter().any(|needed| Arc::ptr_eq(needed, stale)));
        }
        stale.into_iter().find(|stale| !is_stuck(&**stale))
    }

    /// A needed cache that has lost its watch and does not know yet whether etcd was restored. One that cannot find out is
    /// ignored after [`PATIENCE`]. Time that was spent on others lately is deducted, so that many resources which fail one
    /// after the other do not stop a controller for that long each.
    fn in_doubt(&self) -> Option<Arc<dyn AnyInformer>> {
        if !self.informers.has_doubts() {
            return None;
        }
        let (mut doubtful, mut spent) = (vec![], Duration::ZERO);
        for cache in self.needed.lock().iter().filter_map(Weak::upgrade) {
            spent += beyond_check(cache.recent_doubts());
            let lasts = cache.in_doubt_for().filter(|lasts| *lasts < PATIENCE);
            doubtful.extend(lasts.map(|lasts| (cache, lasts)));
        }
        let is_awaited = |lasts: Duration| {
            let on_others = spent.saturating_sub(beyond_check(lasts));
            lasts < PATIENCE.saturating_sub(on_others).max(CHECK)
        };
        doubtful.into_iter().find(|(_, lasts)| is_awaited(*lasts)).map(|(cache, _)| cache)
    }

    /// Whether the controller's caches do not contradict each other because of a restore of etcd.
    pub(crate) fn is_consistent(&self) -> bool {
        self.untrusted().is_none()
    }

    /// Waits until they do not. Then this holds for all keys of the controller.
    pub(crate) async fn consistent(&self) {
        while let Some(stale) = self.left_behind() {
            // One that cannot be listed is ignored once it counts as stuck.
            let _ = tokio::time::timeout(LOOK_AGAIN, stale.listed(stale.next_list())).await;
        }
        let mut doubts = self.informers.doubts();
        while self.in_doubt().is_some() {
            let _ = tokio::time::timeout(LOOK_AGAIN, doubts.changed()).await;
        }
    }

    /// The cache of a resource: the whole one, or else the one of a part that the controller needs. A controller that has only
    /// a part writes only to objects of that part.
    fn cache(&self, resource: &ResourceType) -> Option<Arc<dyn Progress>> {
        self.informers.progress(resource).or_else(|| {
            let needed = self.needed.lock();
            let mut needed = needed.iter().filter_map(Weak::upgrade);
            needed.find(|cache| cache.resource() == resource).map(|cache| cache as Arc<dyn Progress>)
        })
    }

    /// Makes `owner` wait until the cache of `resource` shows `awaited`. If there is no cache of that resource, no sync depends
    /// on it.
    pub(crate) fn raise(&self, owner: &Key, resource: &ResourceType, awaited: Awaited) {
        let Some(progress) = self.cache(resource) else { return };
        if let Awaited::Version(version) = awaited {
            progress.wrote(version);
        }
        if shows(&*progress, &awaited) {
            return;
        }
        let list = progress.next_list();
        let mut waits = self.waits.lock();
        let of_owner = waits.entry(owner.clone()).or_default();
        // Many pods created in one sync need one wait, for the latest of them.
        if let Awaited::Version(version) = awaited {
            let same = of_owner.iter_mut().find_map(|wait| match &mut wait.awaited {
                Awaited::Version(reached) if wait.resource == *resource => Some((reached, &mut wait.list)),
                _ => None,
            });
            if let Some((held, held_list)) = same {
                *held = version.max(*held);
                *held_list = list.max(*held_list);
                return;
            }
        }
        of_owner.push(Wait { resource: resource.clone(), awaited, list, open_until: None });
    }

    /// Makes `owner` wait for the outcome of a write that got no response, which the server may carry out until `until`.
    pub(crate) fn raise_unknown(
        &self,
        owner: &Key,
        resource: &ResourceType,
        unknown: Awaited,
        until: Option<Instant>,
    ) {
        let Some(until) = until.filter(|until| *until > Instant::now()) else {
            return self.raise(owner, resource, unknown);
        };
        let Some(progress) = self.cache(resource) else { return };
        let (resource, list) = (resource.clone(), progress.next_list());
        let wait = Wait { resource, awaited: unknown, list, open_until: Some(until) };
        self.waits.lock().entry(owner.clone()).or_default().push(wait);
    }

    /// Waits until the outcomes of all writes for `owner` are final. From then on, reads and new lists show them.
    async fn decided(&self, owner: &Key) {
        let last = {
            let waits = self.waits.lock();
            waits.get(owner).into_iter().flatten().filter_map(|wait| wait.open_until).max()
        };
        let Some(last) = last else { return };
        tokio::time::sleep_until(last).await;
        let mut waits = self.waits.lock();
        for wait in waits.get_mut(owner).into_iter().flatten() {
            if wait.open_until.is_some_and(|until| until <= last) {
                wait.open_until = None;
                wait.list = self.cache(&wait.resource).map_or(wait.list, |cache| cache.next_list());
            }
        }
    }

    /// The state of the cache of `resource`, before a write to `key` (if the name is known).
    pub(crate) fn before(&self, resource: &ResourceType, key: Option<&Key>) -> Option<Before> {
        self.cache(resource).map(|cache| Before::of(&*cache, key))
    }

    /// Whether a response with this version shows that the server has gone back. Then all caches are listed again.
    pub(crate) fn shows_restore(
        &self,
        resource: &ResourceType,
        before: Option<&Before>,
        version: ResourceVersion,
    ) -> bool {
        let contradicted = before.filter(|before| before.is_contradicted_by(version));
        let Some((before, cache)) = contradicted.zip(self.cache(resource)) else { return false };
        cache.report_restore(before.era);
        true
    }

    /// Whether `owner` has to wait.
    pub(crate) fn is_raised(&self, owner: &Key) -> bool {
        self.awaited(owner).is_some()
    }

    /// The resource whose cache `owner` has to wait for.
    pub(crate) fn awaited(&self, owner: &Key) -> Option<ResourceType> {
        if let Some(cache) = self.untrusted() {
            return Some(cache.resource().clone());
        }
        self.unseen(owner)
    }

    /// The resource of a write for `owner` that its cache has not shown yet. Removes waits that are over.
    pub(crate) fn unseen(&self, owner: &Key) -> Option<ResourceType> {
        let mut waits = self.waits.lock();
        let of_owner = waits.get_mut(owner)?;
        of_owner.retain(|wait| self.cache(&wait.resource).is_some_and(|progress| !wait.is_over(&*progress)));
        let first = of_owner.first().map(|wait| wait.resource.clone());
        if first.is_none() {
            remove(&mut waits, owner);
        }
        first
    }

    /// Removes all waits of `owner`.
    pub(crate) fn forget(&self, owner: &Key) {
        remove(&mut self.waits.lock(), owner);
    }

    /// Waits until the caches show everything that `owner` waits for. A cache that does not is listed again, with a warning.
    pub(crate) async fn lowered(&self, owner: &Key) {
        while self.is_raised(owner) {
            self.decided(owner).await;
            self.consistent().await;
            let of_owner = self.waits.lock().get(owner).cloned().unwrap_or_default();
            for Wait { resource, awaited, list, open_until } in of_owner {
                if open_until.is_some() {
                    continue;
                }
                let Some(progress) = self.cache(&resource) else { continue };
                // A list also ends the wait for an outcome that cannot be read.
                let over = async {
                    tokio::select! {
                        biased;
                        () = progress.listed(list) => {}
                        () = self.shown(owner, &resource, &*progress, &awaited) => {}
                    }
                };
                if tokio::time::timeout(PATIENCE, over).await.is_err() {
                    tracing::warn!(%owner, %resource, ?awaited, "the cache has not shown a write in time; listing again");
                    progress.refresh();
                }
            }
        }
    }

    /// Waits until the cache shows it. An unknown outcome is read from the server first.
    async fn shown(&self, owner: &Key, resource: &ResourceType, cache: &dyn Progress, awaited: &Awaited) {
        let mut pause = Duration::from_secs(1);
        let known = loop {
            match self.read_outcome(resource, awaited).await {
                Ok(known) => break known,
                Err(error) => {
                    tracing::warn!(%owner, %resource, error = %Chain(&error), "cannot read the outcome of a write; trying again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            }
        };
        if known != *awaited {
            let mut waits = self.waits.lock();
            let of_owner = waits.get_mut(owner).into_iter().flatten();
            let known_now = |wait: &&mut Wait| wait.awaited == *awaited && wait.open_until.is_none();
            of_owner.filter(known_now).for_each(|wait| wait.awaited.clone_from(&known));
        }
        if matches!(awaited, Awaited::Present(_)) && !shows(cache, &known) {
            cache.request_bookmark();
        }
        shown(cache, &known).await;
    }

    /// Reads the outcome of an unanswered write from the server, to get something that the cache can show.
    async fn read_outcome(&self, resource: &ResourceType, awaited: &Awaited) -> Result<Awaited, Error> {
        match awaited {
            Awaited::Version(_) | Awaited::Gone(..) | Awaited::Vanished(..) | Awaited::Listed => {
                Ok(awaited.clone())
            }
            Awaited::UnknownObject(key) => self.live_object(resource, key).await,
            Awaited::Present(namespace) => self.live_latest(resource, namespace.as_deref()).await,
        }
    }

    /// The current state of one object. A list, since the identity of the caches may list every resource.
    async fn live_object(&self, resource: &ResourceType, key: &Key) -> Result<Awaited, Error> {
        // First the cache, then the server: an object that the cache had and the server then lacks will not come back.
        let held = self.before(resource, Some(key)).and_then(Before::uid);
        let only = smol_str::format_smolstr!("metadata.name={}", key.name);
        let found = self.live(resource, Some(&key.namespace), Some(only)).await?;
        if let Some(object) = found.items.first() {
            return Ok(Awaited::Version(object.metadata.resource_version));
        }
        Ok(held.map_or(Awaited::Version(ResourceVersion(0)), |uid| Awaited::Vanished(key.clone(), uid)))
    }

    /// What was created has at most the server's current version.
    async fn live_latest(&self, resource: &ResourceType, namespace: Option<&str>) -> Result<Awaited, Error> {
        self.live(resource, namespace, None).await.map(|list| Awaited::Version(list.resource_version))
    }

    /// A list of at most one object, which is never stale.
    async fn live(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        field_selector: Option<SmolStr>,
    ) -> Result<List<PartialObject>, Error> {
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let params =
            ListParams { metadata_only: true, limit: Some(1), field_selector, ..ListParams::default() };
        self.reader.list_as::<PartialObject>(resource, namespace, &params).await
    }
}

/// Whether a cache has failed for so long that nothing should wait for it. While no cache can reach the server, none is stuck.
pub(crate) fn is_stuck(informer: &dyn AnyInformer) -> bool {
    let health = informer.health();
    health.stopped || health.failing.is_some_and(|failing| failing.since > PATIENCE) && !is_in_doubt(informer)
}

/// The part of a doubt that is longer than a check takes.
fn beyond_check(lasts: Duration) -> Duration {
    lasts.saturating_sub(CHECK)
}

fn is_in_doubt(informer: &dyn AnyInformer) -> bool {
    informer.in_doubt_for().is_some_and(|lasts| lasts < PATIENCE)
}

fn shows(cache: &dyn Progress, awaited: &Awaited) -> bool {
    match awaited {
        Awaited::Version(version) => cache.version_reached() >= *version,
        Awaited::Gone(key, uid) => {
            cache.holds(key).is_none_or(|(held, deleting, _)| held != *uid || deleting)
        }
        Awaited::Vanished(key, uid) => cache.holds(key).is_none_or(|(held, ..)| held != *uid),
        Awaited::UnknownObject(_) | Awaited::Present(_) | Awaited::Listed => false,
    }
}

/// Waits until the cache shows it. Only a list shows an unknown outcome.
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
        Awaited::UnknownObject(_) | Awaited::Present(_) | Awaited::Listed => std::future::pending().await,
    }
}
