//! Informers without their type, for code that handles resources of any kind.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object, ObjectMeta, ResourceType, ResourceVersion, Uid};
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::change::MetaChange;
use crate::fanout::Subscription;
use crate::health::Health;
use crate::informer::Informer;
use crate::metrics::Counts;

/// How far the cache of a resource has come. The write barrier waits on it.
pub trait Progress: Send + Sync {
    /// The version up to which the cache has seen every change.
    fn version_reached(&self) -> ResourceVersion;

    /// Completes when the cache has seen `version`, or the server has returned to an earlier one. If the informer is stopped
    /// before that, it never completes: use a timeout.
    fn reached(&self, version: ResourceVersion) -> BoxFuture<'static, ()>;

    /// Uid, whether it is being deleted, and version of the newest known state of `key`.
    fn holds(&self, key: &Key) -> Option<(Uid, bool, ResourceVersion)>;

    /// The number of the first list that begins after this call: it shows everything written before the call.
    fn next_list(&self) -> u64;

    /// Whether the list of that number, or a later one, has been completed.
    fn has_listed(&self, number: u64) -> bool;

    /// Completes when the list of that number, or a later one, is complete.
    fn listed(&self, number: u64) -> BoxFuture<'static, ()>;

    /// The number of restores of etcd that were detected.
    fn era(&self) -> u64;

    /// Reports the version in the response to a write. If the server later has a lower one, it was restored, also if no cache had
    /// shown the write.
    fn wrote(&self, version: ResourceVersion);

    /// Reports that the response to a write had a version that the cache had passed before: the server has gone back since
    /// `era`. All caches are listed again, or this one only if it may have a store of its own.
    fn report_restore(&self, era: u64);

    /// Requests a relist, if the watch seems to have missed something.
    fn refresh(&self);

    /// Requests a bookmark soon. On a quiet watch one comes only every minute.
    fn request_bookmark(&self);
}

/// An informer of any type, seen through its objects' metadata.
pub trait AnyInformer: Progress {
    fn resource(&self) -> &ResourceType;

    /// Whether a list has been completed.
    fn has_synced(&self) -> bool;

    /// Completes with `true` when it has synced, with `false` when it is stopped before that.
    fn synced(&self) -> BoxFuture<'static, bool>;

    /// As [`Informer::subscribe`], with metadata only.
    fn subscribe_meta(&self, handler: Box<dyn Fn(&MetaChange<'_>) + Send + Sync>) -> Subscription;

    /// The [`era`](Progress::era) in which its latest list began.
    fn listed_in(&self) -> u64;

    /// Whether its first list is under way, and began before this [`era`](Progress::era).
    fn is_first_list_from_before(&self, era: u64) -> bool;

    /// How long, while the server responds, it has not been known whether etcd was restored, because the watch was lost. Recent times
    /// count, too. `None` if it is known.
    fn in_doubt_for(&self) -> Option<Duration>;

    /// The sum of such times in the recent past, also if it is known now.
    fn recent_doubts(&self) -> Duration;

    /// Completes when the cache has shown everything that the server had at `since`, or when the informer is stopped.
    /// Requests the current version from the server, and a bookmark from a quiet watch.
    fn current_since(&self, since: Instant) -> BoxFuture<'static, ()>;

    /// Calls `look` with the metadata of `key`; `false` if there is no such object.
    fn look_at(&self, key: &Key, look: &mut dyn FnMut(&ObjectMeta)) -> bool;

    /// How many objects one namespace has.
    fn count_in_namespace(&self, namespace: &str) -> usize;

    fn health(&self) -> Health;

    fn counts(&self) -> Counts;

    /// Stops it; the store keeps its contents.
    fn stop(&self);
}

impl<T: Object> Progress for Informer<T> {
    fn version_reached(&self) -> ResourceVersion {
        Informer::version_reached(self)
    }

    fn reached(&self, version: ResourceVersion) -> BoxFuture<'static, ()> {
        let writer = self.writer.clone();
        Box::pin(async move {
            writer.state.version_waits.wait(version, || writer.store.version_reached()).await;
        })
    }

    fn holds(&self, key: &Key) -> Option<(Uid, bool, ResourceVersion)> {
        self.writer.store.header(key).map(|header| (header.uid, header.deleting, header.version))
    }

    fn next_list(&self) -> u64 {
        self.writer.state.next_list()
    }

    fn has_listed(&self, number: u64) -> bool {
        self.writer.state.listed.borrow().number >= number
    }

    fn listed(&self, number: u64) -> BoxFuture<'static, ()> {
        let mut listed = self.writer.state.listed.subscribe();
        Box::pin(async move {
            if listed.wait_for(|listed| listed.number >= number).await.is_err() {
                std::future::pending().await
            }
        })
    }

    fn era(&self) -> u64 {
        self.writer.state.era.now()
    }

    fn wrote(&self, version: ResourceVersion) {
        self.writer.state.wrote(version);
    }

    fn report_restore(&self, era: u64) {
        if self.writer.state.went_back(era) {
            tracing::warn!(resource = %self.writer.state.resource, "a write returned a version from the past; listing all resources again");
        }
    }

    fn refresh(&self) {
        self.writer.state.relist_requests.notify_one();
    }

    fn request_bookmark(&self) {
        self.writer.state.bookmark_requests.notify_one();
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
        self.writer.state.listed.borrow().era
    }

    fn is_first_list_from_before(&self, era: u64) -> bool {
        self.writer.state.is_first_list_from_before(era)
    }

    fn in_doubt_for(&self) -> Option<Duration> {
        self.writer.state.doubt.lasts()
    }

    fn recent_doubts(&self) -> Duration {
        self.writer.state.doubt.recent()
    }

    fn look_at(&self, key: &Key, look: &mut dyn FnMut(&ObjectMeta)) -> bool {
        let object: Option<Arc<T>> = self.writer.store.get(key);
        object.is_some_and(|object| {
            look(object.meta());
            true
        })
    }

    fn count_in_namespace(&self, namespace: &str) -> usize {
        self.writer.store.count_in_namespace(namespace)
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
