//! The informers of the process: one for each resource, whoever asks.

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

use crate::client_source::ClientSource;
use crate::era::Era;
use crate::informer::Informer;
use crate::progress::{AnyInformer, Progress};
use crate::source::{Form, Source};

#[derive(Debug, Clone)]
pub struct InformerOptions {
    /// Subscribers are reminded of every object after one to two such periods, over and over; `None`: never.
    pub resync: Option<Duration>,
    pub seed: u64,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self { resync: None, seed: rand::random() }
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

/// The shared factory. Clones share their informers; the last one dropped stops those that nobody holds.
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
    /// The latest era of which all informers are known to have lists.
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

/// The same informer twice: to give back as what it is, and to use whatever it is.
struct Running {
    typed: Arc<dyn Any + Send + Sync>,
    erased: Arc<dyn AnyInformer>,
}

impl Informers {
    /// Informers that list and watch through `client`. They run on the tokio runtime that they are asked for on.
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

    /// The same for a resource whose version is found out at run time.
    pub fn filtered_as<T: Object>(&self, resource: &ResourceType, filter: Filter) -> Arc<Informer<T>> {
        self.start(resource.clone(), filter, Form::Whole)
    }

    /// An informer that holds only metadata, for resources that are not known at compile time.
    pub fn dynamic(&self, resource: &ResourceType) -> Arc<Informer<PartialObject>> {
        self.start(resource.clone(), Filter::default(), Form::Metadata)
    }

    /// Any informer that covers the whole resource: the one that runs for its type if there is one, so that a
    /// resource is not watched twice; else a [`dynamic`](Self::dynamic) one.
    pub fn observe(&self, resource: &ResourceType) -> Arc<dyn AnyInformer> {
        self.whole(resource).unwrap_or_else(|| self.dynamic(resource))
    }

    /// How far the cache of a resource has come, if it is watched as a whole.
    pub fn progress(&self, resource: &ResourceType) -> Option<Arc<dyn Progress>> {
        self.whole(resource).map(|informer| informer as Arc<dyn Progress>)
    }

    /// Stops the [`dynamic`](Self::dynamic) informer of a resource that is no longer served or needed, and frees
    /// its place: asking again starts a new one. Informers of the resource's own type run on.
    pub fn stop(&self, resource: &ResourceType) {
        let stopped = self.shared.running.lock().remove(&Id::metadata(resource));
        if let Some(informer) = stopped {
            informer.erased.stop();
        }
    }

    /// Stops the [`dynamic`](Self::dynamic) informer of a resource that its last user has let go of. One that
    /// somebody still holds runs on: stopping it is theirs.
    pub fn release(&self, resource: &ResourceType) {
        let id = Id::metadata(resource);
        let mut running = self.shared.running.lock();
        // The table itself holds each informer twice.
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

    /// Waits until every informer has synced, those included that are started meanwhile.
    pub async fn all_synced(&self) {
        while let Some(informer) = self.all().into_iter().find(|informer| !informer.has_synced()) {
            if !informer.synced().await {
                // Stopped on its own account rather than by us, so it is still in the table: nothing to wait for.
                self.shared.running.lock().retain(|_, running| !running.erased.health().stopped);
            }
        }
    }

    /// How often the server has been seen to go back to an earlier version. What was learnt from it in an earlier era
    /// may not hold any more.
    pub fn era(&self) -> u64 {
        self.shared.era.now()
    }

    /// An informer that has not been listed since the server was seen to go back to an earlier version, as after a
    /// restore of etcd. What it holds may never have happened, so it fits none of the others.
    pub fn left_behind(&self) -> Option<Arc<dyn AnyInformer>> {
        let era = self.shared.era.now();
        if self.shared.settled.load(Ordering::Acquire) == era {
            return None;
        }
        let lags = |informer: &Arc<dyn AnyInformer>| informer.has_synced() && informer.listed_in() < era;
        let found = self.all().into_iter().find(lags);
        if found.is_none() {
            self.shared.settled.store(era, Ordering::Release);
        }
        found
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
        // Mixed with the resource: with one seed for all they would all jitter alike.
        let seed = self.shared.options.seed ^ FxBuildHasher.hash_one(&resource);
        let rng = StdRng::seed_from_u64(seed);
        let (era, resync) = (self.shared.era.clone(), self.shared.options.resync);
        let informer = Arc::new(Informer::<T>::start_in(era, resource, source, resync, rng));
        running.insert(id, Running { typed: informer.clone(), erased: informer.clone() });
        informer
    }
}
