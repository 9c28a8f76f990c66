//! Informers without their type: for those who wait on, or look at, resources of any kind.

use std::sync::Arc;

use flyball_api::{Key, Object, ObjectMeta, ResourceType, ResourceVersion, Uid};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::change::MetaChange;
use crate::fanout::Subscription;
use crate::health::Health;
use crate::informer::Informer;
use crate::metrics::Counts;

/// How far the cache of a resource has come: what a write barrier asks.
pub trait Progress: Send + Sync {
    /// The version up to which the cache has seen every change.
    fn version_reached(&self) -> ResourceVersion;

    /// Completes when the cache has seen `version`, or the server has gone back to an earlier one. If the informer is stopped before that, it never does: waiting
    /// is for the caller to bound.
    fn reached(&self, version: ResourceVersion) -> BoxFuture<'static, ()>;

    /// Identity, whether it is being deleted, and version of the newest that was heard of `key`.
    fn holds(&self, key: &Key) -> Option<(Uid, bool, ResourceVersion)>;

    /// The number of the first list that begins after this call: it shows all that was written before.
    fn next_list(&self) -> u64;

    /// Whether the list of that number, or a later one, has been completed.
    fn has_listed(&self, number: u64) -> bool;

    /// Completes when the list of that number, or a later one, is complete.
    fn listed(&self, number: u64) -> BoxFuture<'static, ()>;

    /// How often the server has been seen to go back to an earlier version.
    fn era(&self) -> u64;

    /// A write has been answered with a version that the cache had passed before: the server has gone back since `era`.
    /// All caches are listed anew.
    fn went_back(&self, era: u64);

    /// Asks for a full list instead of the running watch, from somebody who has reason to doubt it.
    fn refresh(&self);

    /// Asks for the server's present version soon. A quiet watch tells it once a minute only.
    fn hurry(&self);
}

/// An informer of any type, seen through its objects' metadata.
pub trait AnyInformer: Progress {
    fn resource(&self) -> &ResourceType;

    /// Whether a complete list has been taken over.
    fn has_synced(&self) -> bool;

    /// Completes with `true` when it has synced, with `false` when it is stopped before that.
    fn synced(&self) -> BoxFuture<'static, bool>;

    /// As [`Informer::subscribe`], with metadata only.
    fn subscribe_meta(&self, handler: Box<dyn Fn(&MetaChange<'_>) + Send + Sync>) -> Subscription;

    /// The [`era`](Progress::era) in which its latest list began.
    fn listed_in(&self) -> u64;

    /// Completes when the cache has shown all that the server had at `since`; the server is asked, and quiet watches
    /// are hurried. Completes as well when the informer is stopped.
    fn current_since(&self, since: Instant) -> BoxFuture<'static, ()>;

    /// Shows the metadata of `key` to `look`; `false` if there is no such object.
    fn look_at(&self, key: &Key, look: &mut dyn FnMut(&ObjectMeta)) -> bool;

    /// How many objects one namespace has.
    fn count_in_namespace(&self, namespace: &str) -> usize;

    fn health(&self) -> Health;

    fn counts(&self) -> Counts;

    /// Stops it; the store keeps what it has.
    fn stop(&self);
}

impl<T: Object> Progress for Informer<T> {
    fn version_reached(&self) -> ResourceVersion {
        Informer::version_reached(self)
    }

    fn reached(&self, version: ResourceVersion) -> BoxFuture<'static, ()> {
        let mirror = self.mirror.clone();
        Box::pin(async move {
            mirror.course.milestones.wait(version, || mirror.store.version_reached()).await;
        })
    }

    fn holds(&self, key: &Key) -> Option<(Uid, bool, ResourceVersion)> {
        self.mirror.store.header(key).map(|header| (header.uid, header.deleting, header.version))
    }

    fn next_list(&self) -> u64 {
        self.mirror.course.next_list()
    }

    fn has_listed(&self, number: u64) -> bool {
        self.mirror.course.listed.borrow().number >= number
    }

    fn listed(&self, number: u64) -> BoxFuture<'static, ()> {
        let mut listed = self.mirror.course.listed.subscribe();
        Box::pin(async move {
            if listed.wait_for(|listed| listed.number >= number).await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn era(&self) -> u64 {
        self.mirror.course.era.now()
    }

    fn went_back(&self, era: u64) {
        if self.mirror.course.era.end(era) {
            tracing::warn!(resource = %self.mirror.course.resource, "a write got a version from before; listing everything anew");
        }
    }

    fn refresh(&self) {
        self.mirror.course.doubts.notify_one();
    }

    fn hurry(&self) {
        self.mirror.course.haste.notify_one();
    }
}

impl<T: Object> AnyInformer for Informer<T> {
    fn resource(&self) -> &ResourceType {
        Informer::resource(self)
    }

    fn has_synced(&self) -> bool {
        Informer::has_synced(self)
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        Box::pin(self.wait_synced())
    }

    fn current_since(&self, since: Instant) -> BoxFuture<'static, ()> {
        Box::pin(self.confirm(since))
    }

    fn subscribe_meta(&self, handler: Box<dyn Fn(&MetaChange<'_>) + Send + Sync>) -> Subscription {
        self.subscribe(Box::new(move |change| handler(&change.meta())))
    }

    fn listed_in(&self) -> u64 {
        self.mirror.course.listed.borrow().era
    }

    fn look_at(&self, key: &Key, look: &mut dyn FnMut(&ObjectMeta)) -> bool {
        let object: Option<Arc<T>> = self.mirror.store.get(key);
        object.is_some_and(|object| {
            look(object.meta());
            true
        })
    }

    fn count_in_namespace(&self, namespace: &str) -> usize {
        self.mirror.store.count_in_namespace(namespace)
    }

    fn health(&self) -> Health {
        Informer::health(self)
    }

    fn counts(&self) -> Counts {
        Informer::counts(self)
    }

    fn stop(&self) {
        Informer::stop(self);
    }
}
