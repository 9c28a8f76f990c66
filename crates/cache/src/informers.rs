//! The informers of the process: one for each resource, shared by all controllers.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flyball_api::{Object, PartialObject, Resource, ResourceType};
use flyball_client::Client;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustc_hash::FxBuildHasher;
use smol_str::SmolStr;
use tokio::sync::watch;

use crate::client_source::ClientSource;
use crate::era::Era;
use crate::fanout::Subscription;
use crate::informer::Informer;
use crate::progress::{AnyInformer, Progress};
use crate::source::{Form, Source};

#[derive(Debug, Clone)]
pub struct InformerOptions {
    /// Every object is resynced after one to two such periods, repeatedly; `None`: never.
    pub resync: Option<Duration>,
    /// Whether initial lists are streamed where the server can do so, instead of paged.
    pub streams: bool,
    pub seed: u64,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self { resync: None, streams: true, seed: rand::random() }
    }
}

/// The part of a resource to watch. The default is all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    pub namespace: Option<SmolStr>,
    /// Only objects that match this label selector (string form).
    pub labels: Option<String>,
    /// Only objects that match this field selector.
    pub fields: Option<String>,
}

/// The shared factory. Clones share their informers. Dropping the last clone stops the informers that have no other user.
#[derive(Clone)]
pub struct Informers {
    shared: Arc<Shared>,
}

type MakeSource = Box<dyn Fn(&ResourceType, &Filter, Form) -> Arc<dyn Source> + Send + Sync>;

struct Shared {
    source: MakeSource,
    options: InformerOptions,
    running: Mutex<BTreeMap<Id, Running>>,
    era: Arc<Era>,
    /// The latest era in which all informers are known to have listed.
    settled: AtomicU64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    resource: ResourceType,
    filter: Filter,
    object: TypeId,
}

impl Id {
    fn metadata(resource: &ResourceType) -> Self {
        let (filter, object) = (Filter::default(), TypeId::of::<PartialObject>());
        Self { resource: resource.clone(), filter, object }
    }
}

/// The same informer with and without its type.
struct Running {
    typed: Arc<dyn Any + Send + Sync>,
    erased: Arc<dyn AnyInformer>,
}

impl Informers {
    /// Informers that list and watch through `client`. They run on the tokio runtime on which they are first requested.
    pub fn new(client: Client, options: InformerOptions) -> Self {
        let source: MakeSource = Box::new(move |resource, filter, form| {
            Arc::new(ClientSource::new(client.clone(), resource.clone(), filter.clone(), form))
        });
        Self::over(source, options)
    }

    pub(crate) fn over(source: MakeSource, options: InformerOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                source,
                options,
                running: Mutex::default(),
                era: Arc::default(),
                settled: AtomicU64::new(0),
            }),
        }
    }

    /// The informer of a resource, started at first use.
    pub fn get<T: Resource>(&self) -> Arc<Informer<T>> {
        self.filtered(Filter::default())
    }

    /// An informer of a part of a resource.
    pub fn filtered<T: Resource>(&self, filter: Filter) -> Arc<Informer<T>> {
        self.start(T::TYPE, filter, Form::Whole)
    }

    /// The same for a resource whose version is discovered at run time.
    pub fn filtered_as<T: Object>(&self, resource: &ResourceType, filter: Filter) -> Arc<Informer<T>> {
        self.start(resource.clone(), filter, Form::Whole)
    }

    /// An informer of metadata only, for resources that are not known at compile time.
    pub fn dynamic(&self, resource: &ResourceType) -> Arc<Informer<PartialObject>> {
        self.start(resource.clone(), Filter::default(), Form::Metadata)
    }

    /// An informer of the whole resource: the typed one if it runs, so that a resource is not watched twice; else a
    /// [`dynamic`](Self::dynamic) one.
    pub fn observe(&self, resource: &ResourceType) -> Arc<dyn AnyInformer> {
        self.whole(resource).unwrap_or_else(|| self.dynamic(resource))
    }

    /// The progress of the cache of a resource, if it is watched as a whole.
    pub fn progress(&self, resource: &ResourceType) -> Option<Arc<dyn Progress>> {
        self.whole(resource).map(|informer| informer as Arc<dyn Progress>)
    }

    /// Stops and removes the [`dynamic`](Self::dynamic) informer of a resource that is no longer served or needed. Typed
    /// informers of the resource continue.
    pub fn stop(&self, resource: &ResourceType) {
        let stopped = self.shared.running.lock().remove(&Id::metadata(resource));
        if let Some(informer) = stopped {
            informer.erased.stop();
        }
    }

    /// Stops the [`dynamic`](Self::dynamic) informer of a resource if it has no other user.
    pub fn release(&self, resource: &ResourceType) {
        let id = Id::metadata(resource);
        let mut running = self.shared.running.lock();
        // The table itself has two references to each informer.
        if running.get(&id).is_some_and(|informer| Arc::strong_count(&informer.erased) <= 2) {
            running.remove(&id);
        }
    }

    pub fn stop_all(&self) {
        let all = std::mem::take(&mut *self.shared.running.lock());
        for informer in all.values() {
            informer.erased.stop();
        }
    }

    /// All informers, sorted by resource: for health checks and metrics.
    pub fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.shared.running.lock().values().map(|running| running.erased.clone()).collect()
    }

    /// Waits until every informer has synced, including those that are started meanwhile.
    pub async fn all_synced(&self) {
        while let Some(informer) = self.all().into_iter().find(|informer| !informer.has_synced()) {
            if !informer.synced().await {
                // It was stopped, but not through this factory, so it is still in the table.
                self.shared.running.lock().retain(|_, running| !running.erased.health().stopped);
            }
        }
    }

    /// How often the server has been seen to go back to an earlier version. What was learnt from it in an earlier era
    /// may not hold any more.
    pub fn era(&self) -> u64 {
        self.shared.era.now()
    }

    /// Completes when the server has been seen to go back since `era`.
    pub async fn restored_since(&self, era: u64) {
        self.shared.era.ended(era).await;
    }

    /// Calls `handler`, which must be fast, each time before an informer lists or opens a watch. Writes that were answered
    /// before and that no cache has shown may have been undone by a restore of etcd. If the server has since written as
    /// many versions as it lost, no cache detects that.
    pub fn on_connect(&self, handler: impl Fn() + Send + Sync + 'static) -> Subscription {
        self.shared.era.on_connect(Box::new(handler))
    }

    /// The informers that have not been listed since the server went back to an earlier version, as after a restore of etcd.
    /// Their contents are inconsistent with those of other informers.
    pub fn left_behind(&self) -> Vec<Arc<dyn AnyInformer>> {
        let era = self.shared.era.now();
        if self.shared.settled.load(Ordering::Acquire) == era {
            return vec![];
        }
        let lags = |informer: &Arc<dyn AnyInformer>| informer.has_synced() && informer.listed_in() < era;
        let found: Vec<_> = self.all().into_iter().filter(lags).collect();
        if found.is_empty() {
            self.shared.settled.store(era, Ordering::Release);
        }
        found
    }

    /// The number of informers that have lost their watch and do not know yet whether etcd was restored meanwhile.
    pub fn doubts(&self) -> watch::Receiver<usize> {
        self.shared.era.doubts()
    }

    /// Whether there are any [`doubts`](Self::doubts).
    pub fn has_doubts(&self) -> bool {
        self.shared.era.has_doubts()
    }

    fn whole(&self, resource: &ResourceType) -> Option<Arc<dyn AnyInformer>> {
        let metadata = TypeId::of::<PartialObject>();
        let running = self.shared.running.lock();
        let candidates =
            running.iter().filter(|(id, _)| id.resource == *resource && id.filter == Filter::default());
        candidates.min_by_key(|(id, _)| id.object == metadata).map(|(_, running)| running.erased.clone())
    }

    fn start<T: Object>(&self, resource: ResourceType, filter: Filter, form: Form) -> Arc<Informer<T>> {
        let id = Id { resource: resource.clone(), filter, object: TypeId::of::<T>() };
        let mut running = self.shared.running.lock();
        let present =
            running.get(&id).and_then(|running| running.typed.clone().downcast::<Informer<T>>().ok());
        if let Some(informer) = present {
            return informer;
        }
        let source = (self.shared.source)(&resource, &id.filter, form);
        // With the same seed, all informers would have the same jitter.
        let seed = self.shared.options.seed ^ FxBuildHasher.hash_one(&resource);
        let rng = StdRng::seed_from_u64(seed);
        let (era, options) = (self.shared.era.clone(), &self.shared.options);
        let informer = Arc::new(Informer::<T>::start_in(era, resource, source, options, rng));
        running.insert(id, Running { typed: informer.clone(), erased: informer.clone() });
        informer
    }
}
