//! One resource, listed and watched once for the whole process.

use std::sync::Arc;
#[cfg(test)]
use std::time::Duration;

use flyball_api::{Object, ResourceType, ResourceVersion};
use flyball_latest as latest;
use rand::rngs::StdRng;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::currency;
use crate::era::Era;
use crate::fanout::{Handler, Subscription};
use crate::health::{Health, Record};
use crate::index::Index;
use crate::informers::InformerOptions;
use crate::metrics::Counts;
use crate::reflector::Reflector;
use crate::source::Source;
use crate::store::Store;
use crate::store_writer::StoreWriter;

/// Keeps a [`Store`] up to date and delivers changes to subscribers. Dropping it stops it.
pub struct Informer<T> {
    pub(crate) writer: Arc<StoreWriter<T>>,
    record: Arc<Record>,
    source: Arc<dyn Source>,
    stopped: latest::Sender<bool>,
    task: AbortHandle,
}

impl<T: Object> Informer<T> {
    #[cfg(test)]
    pub(crate) fn start(
        resource: ResourceType,
        source: Arc<dyn Source>,
        resync: Option<Duration>,
        rng: StdRng,
    ) -> Self {
        let options = InformerOptions { resync, ..InformerOptions::default() };
        Self::start_in(Arc::default(), resource, source, &options, rng)
    }

    /// Starts a task on the current tokio runtime. `era` is shared with the other informers of the server.
    pub(crate) fn start_in(
        era: Arc<Era>,
        resource: ResourceType,
        source: Arc<dyn Source>,
        options: &InformerOptions,
        rng: StdRng,
    ) -> Self {
        let writer = Arc::new(StoreWriter::new(resource, era));
        let record = Arc::new(Record::default());
        let state = writer.state.clone();
        let reflector = Reflector::new(source.clone(), writer.clone(), state, record.clone(), options, rng);
        let task = tokio::spawn(reflector.run()).abort_handle();
        Self { writer, record, source, stopped: latest::Sender::new(false), task }
    }

    pub fn resource(&self) -> &ResourceType {
        &self.writer.state.resource
    }

    pub fn store(&self) -> &Store<T> {
        &self.writer.store
    }

    /// Installs an index, unless it exists.
    pub fn index(&self, index: &Index<T>) {
        self.writer.store.install(index);
    }

    /// Calls `handler` with every present object, as [`Origin::Initial`], before this returns; then, from the informer's task,
    /// with every change: each once, in order, when it is already visible in the store.
    ///
    /// Handlers must be fast, since the informer waits for them, and must not subscribe to the same informer.
    ///
    /// [`Origin::Initial`]: crate::Origin::Initial
    pub fn subscribe(&self, handler: Handler<T>) -> Subscription {
        self.writer.fanout.subscribe(&self.writer.store, handler)
    }

    /// Whether a list has been completed and delivered.
    pub fn has_synced(&self) -> bool {
        self.writer.state.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced); `false` if the informer is stopped before.
    pub async fn synced(&self) -> bool {
        self.wait_synced().await
    }

    pub(crate) fn wait_synced(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut synced = self.writer.state.synced.subscribe();
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
        let (writer, source, mut stopped) =
            (self.writer.clone(), self.source.clone(), self.stopped.subscribe());
        async move {
            let reached = || writer.store.version_reached();
            tokio::select! {
                biased;
                () = currency::confirm(&writer.state, &*source, since, reached) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }

    /// The version up to which the store has seen every change.
    pub fn version_reached(&self) -> ResourceVersion {
        self.writer.store.version_reached()
    }

    /// Waits until the store has seen `version` and the change is delivered, or until the server and the store have gone back
    /// to an earlier version, as after a restore of etcd. If the informer is stopped, it waits forever: use a timeout.
    pub async fn reached(&self, version: ResourceVersion) {
        self.writer.state.version_waits.wait(version, || self.version_reached()).await;
    }

    pub fn health(&self) -> Health {
        Health { synced: self.has_synced(), stopped: *self.stopped.borrow(), failing: self.record.failing() }
    }

    pub fn counts(&self) -> Counts {
        self.writer.state.counters.read(self.writer.store.len(), self.writer.store.undecodable().len())
    }

    /// Ends the watch. The store keeps its contents.
    pub fn stop(&self) {
        self.task.abort();
        self.writer.state.doubt.end();
        self.stopped.send_replace(true);
    }
}

impl<T> Drop for Informer<T> {
    fn drop(&mut self) {
        self.task.abort();
        self.stopped.send_replace(true);
    }
}
