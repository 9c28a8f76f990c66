//! One resource, listed and watched once for the whole process.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Object, ResourceType, ResourceVersion};
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::currency;
use crate::era::Era;
use crate::fanout::{Handler, Subscription};
use crate::health::{Health, Record};
use crate::index::Index;
use crate::metrics::Counts;
use crate::mirror::Mirror;
use crate::reflector::Reflector;
use crate::source::Source;
use crate::store::Store;

/// Keeps a [`Store`] true to the server and tells subscribers what changes. Dropping it stops it.
pub struct Informer<T> {
    pub(crate) mirror: Arc<Mirror<T>>,
    record: Arc<Record>,
    source: Arc<dyn Source>,
    stopped: watch::Sender<bool>,
    task: AbortHandle,
}

impl<T: Object> Informer<T> {
    /// Starts listing and watching, by itself.
    #[cfg(test)]
    pub(crate) fn start(
        resource: ResourceType,
        source: Arc<dyn Source>,
        resync: Option<Duration>,
        rng: StdRng,
    ) -> Self {
        Self::start_in(Arc::default(), resource, source, resync, rng)
    }

    /// Starts listing and watching, in a task of the current tokio runtime, as one of several informers of a server.
    pub(crate) fn start_in(
        era: Arc<Era>,
        resource: ResourceType,
        source: Arc<dyn Source>,
        resync: Option<Duration>,
        rng: StdRng,
    ) -> Self {
        let mirror = Arc::new(Mirror::new(resource, era));
        let record = Arc::new(Record::default());
        let course = mirror.course.clone();
        let reflector = Reflector::new(source.clone(), mirror.clone(), course, record.clone(), resync, rng);
        let task = tokio::spawn(reflector.run()).abort_handle();
        Self { mirror, record, source, stopped: watch::Sender::new(false), task }
    }

    pub fn resource(&self) -> &ResourceType {
        &self.mirror.course.resource
    }

    pub fn store(&self) -> &Store<T> {
        &self.mirror.store
    }

    /// Installs an index, unless it is there, over the present and all future objects.
    pub fn index(&self, index: &Index<T>) {
        self.mirror.store.install(index);
    }

    /// Calls `handler` with every object that is there now, before this returns and as [`Origin::Initial`], then
    /// with every change from the informer's task: each once, in order, and visible in the store already.
    ///
    /// Handlers only note keys: while one runs the informer waits. They must not subscribe to the same informer.
    ///
    /// [`Origin::Initial`]: crate::Origin::Initial
    pub fn subscribe(&self, handler: Handler<T>) -> Subscription {
        self.mirror.fanout.subscribe(&self.mirror.store, handler)
    }

    /// Whether a complete list has been taken over, and every subscriber told.
    pub fn has_synced(&self) -> bool {
        self.mirror.course.has_synced()
    }

    /// Waits for that; `false` if the informer is stopped before.
    pub async fn synced(&self) -> bool {
        self.wait_synced().await
    }

    pub(crate) fn wait_synced(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut synced = self.mirror.course.synced.subscribe();
        let mut stopped = self.stopped.subscribe();
        async move {
            tokio::select! {
                biased;
                synced = synced.wait_for(|synced| *synced) => synced.is_ok(),
                _ = stopped.wait_for(|stopped| *stopped) => false,
            }
        }
    }

    pub(crate) fn confirm(&self, since: Instant) -> impl Future<Output = ()> + Send + 'static {
        let (mirror, source, mut stopped) =
            (self.mirror.clone(), self.source.clone(), self.stopped.subscribe());
        async move {
            let reached = || mirror.store.version_reached();
            tokio::select! {
                () = currency::confirm(&mirror.course, &*source, since, reached) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }

    /// The version up to which the store has seen every change.
    pub fn version_reached(&self) -> ResourceVersion {
        self.mirror.store.version_reached()
    }

    /// Waits until the store has seen `version` and every subscriber was told, or the server has gone back to an
    /// earlier one, as after a restore of etcd, and the store with it. If the informer is stopped before that, it waits on: bound it.
    pub async fn reached(&self, version: ResourceVersion) {
        self.mirror.course.milestones.wait(version, || self.version_reached()).await;
    }

    pub fn health(&self) -> Health {
        Health { synced: self.has_synced(), stopped: *self.stopped.borrow(), failing: self.record.failing() }
    }

    pub fn counts(&self) -> Counts {
        self.mirror.course.counters.read(self.mirror.store.len(), self.mirror.store.undecodable().len())
    }

    /// Ends the watch for good. The store keeps what it has, but nothing changes any more.
    pub fn stop(&self) {
        self.task.abort();
        self.stopped.send_replace(true);
    }
}

impl<T> Drop for Informer<T> {
    fn drop(&mut self) {
        self.task.abort();
        self.stopped.send_replace(true);
    }
}
