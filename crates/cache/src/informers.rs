//! The informers of the process: one for each resource, shared by all controllers.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use flyball_api::{Object, PartialObject, Resource, ResourceType};
use flyball_client::Client;
use flyball_latest as latest;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustc_hash::FxBuildHasher;
use smol_str::SmolStr;

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
    running: Mutex<Table>,
    era: Arc<Era>,
    /// The latest era in which all informers are known to have listed.
    settled: AtomicU64,
}

/// By resource, since every write looks up the informers of one.
type Table = BTreeMap<ResourceType, BTreeMap<Part, Running>>;

/// What an informer shows of its resource.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    filter: Filter,
    object: TypeId,
}

impl Part {
    fn whole<T: Object>() -> Self {
        Self { filter: Filter::default(), object: TypeId::of::<T>() }
    }
}

/// The same informer with and without its type.
struct Running {
    typed: Weak<dyn Any + Send + Sync>,
    erased: Weak<dyn AnyInformer>,
    /// Present until the informer is released. After that it runs only while other references to it exist.
    kept: Option<Arc<dyn AnyInformer>>,
}

impl Running {
    /// For a new user.
    fn keep(&mut self) -> Option<Arc<dyn AnyInformer>> {
        self.kept = self.erased.upgrade();
        self.kept.clone()
    }
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

    /// The informer of a resource, if it was started.
    pub fn started<T: Resource>(&self) -> Option<Arc<Informer<T>>> {
        let table = self.shared.running.lock();
        let running = table.get(&T::TYPE)?.get(&Part::whole::<T>())?;
        running.typed.upgrade()?.downcast().ok()
    }

    /// An informer of a part of a resource.
    pub fn filtered<T: Resource>(&self, filter: Filter) -> Arc<Informer<T>> {
        self.get_or_start(&T::TYPE, filter, Form::Whole)
    }

    /// The same for a resource whose version is discovered at run time.
    pub fn filtered_as<T: Object>(&self, resource: &ResourceType, filter: Filter) -> Arc<Informer<T>> {
        self.get_or_start(resource, filter, Form::Whole)
    }

    /// An informer of metadata only, for resources that are not known at compile time.
    pub fn dynamic(&self, resource: &ResourceType) -> Arc<Informer<PartialObject>> {
        self.get_or_start(resource, Filter::default(), Form::Metadata)
    }

    /// An informer of the whole resource: the typed one if it runs, so that a resource is not watched twice; else a
    /// [`dynamic`](Self::dynamic) one.
    pub fn observe(&self, resource: &ResourceType) -> Arc<dyn AnyInformer> {
        let running = &mut *self.shared.running.lock();
        let present = Self::whole(running, resource).and_then(Running::keep);
        present.unwrap_or_else(|| {
            self.start::<PartialObject>(running, resource.clone(), Filter::default(), Form::Metadata)
        })
    }

    /// The informer of a resource, if it is watched as a whole, to look at it: that does not make it run for longer.
    pub fn present(&self, resource: &ResourceType) -> Option<Arc<dyn AnyInformer>> {
        let running = &mut *self.shared.running.lock();
        Self::whole(running, resource).and_then(|running| running.erased.upgrade())
    }

    /// The progress of the cache of a resource, if it is watched as a whole.
    pub fn progress(&self, resource: &ResourceType) -> Option<Arc<dyn Progress>> {
        self.present(resource).map(|informer| informer as Arc<dyn Progress>)
    }

    /// Stops and removes the [`dynamic`](Self::dynamic) informer of a resource that is no longer served or needed. Typed
    /// informers of the resource continue.
    pub fn stop(&self, resource: &ResourceType) {
        let mut running = self.shared.running.lock();
        let of_resource = running.get_mut(resource);
        let stopped = of_resource.and_then(|parts| parts.remove(&Part::whole::<PartialObject>()));
        drop(running);
        if let Some(informer) = stopped.and_then(|running| running.erased.upgrade()) {
            informer.stop();
        }
    }

    /// Stops the [`dynamic`](Self::dynamic) informer of a resource once it has no other user.
    pub fn release(&self, resource: &ResourceType) {
        let mut running = self.shared.running.lock();
        let of_resource = running.get_mut(resource);
        let released = of_resource.and_then(|parts| parts.get_mut(&Part::whole::<PartialObject>()));
        let kept = released.and_then(|running| running.kept.take());
        // The informer may stop when it is dropped; subscribers that are notified of that must not wait for this lock.
        drop(running);
        drop(kept);
    }

    pub fn stop_all(&self) {
        let all = std::mem::take(&mut *self.shared.running.lock());
        for informer in each(&all).filter_map(|running| running.erased.upgrade()) {
            informer.stop();
        }
    }

    /// All informers, sorted by resource: for health checks and metrics.
    pub fn all(&self) -> Vec<Arc<dyn AnyInformer>> {
        each(&self.shared.running.lock()).filter_map(|running| running.erased.upgrade()).collect()
    }

    /// Waits until every informer has synced, including those that are started meanwhile.
    pub async fn all_synced(&self) {
        while let Some(informer) = self.all().into_iter().find(|informer| !informer.has_synced()) {
            if !informer.synced().await {
                // It was stopped, but not through this factory, so it is still in the table.
                let is_stopped = |informer: Arc<dyn AnyInformer>| informer.health().stopped;
                keep_if(&mut self.shared.running.lock(), |running| {
                    !running.erased.upgrade().is_none_or(is_stopped)
                });
            }
        }
    }

    /// How often the server has been seen to go back to an earlier version. What was learnt from it in an earlier era
    /// may not hold any more.
    pub fn era(&self) -> u64 {
        self.shared.era.now()
    }

    /// How long ago the server was last seen to go back.
    pub fn era_lasts(&self) -> Duration {
        self.shared.era.lasts()
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
        let all = self.all();
        // An informer that has not synced is not used yet, but after it has synced, it may show the state before the restore.
        // `has_synced` is read first, since it may change meanwhile.
        let may_lag = all.iter().any(|informer| informer.is_first_list_from_before(era));
        let lags = |informer: &Arc<dyn AnyInformer>| informer.has_synced() && informer.listed_in() < era;
        let found: Vec<_> = all.into_iter().filter(lags).collect();
        if found.is_empty() && !may_lag {
            self.shared.settled.store(era, Ordering::Release);
        }
        found
    }

    /// The number of informers that have lost their watch and do not know yet whether etcd was restored meanwhile.
    pub fn doubts(&self) -> latest::Receiver<usize> {
        self.shared.era.doubts()
    }

    /// Whether there are any [`doubts`](Self::doubts).
    pub fn has_doubts(&self) -> bool {
        self.shared.era.has_doubts()
    }

    /// The informer of a whole resource, the typed one if there are two.
    fn whole<'a>(table: &'a mut Table, resource: &ResourceType) -> Option<&'a mut Running> {
        let metadata = TypeId::of::<PartialObject>();
        let parts = table.get_mut(resource)?.iter_mut();
        let candidates = parts
            .filter(|(part, running)| part.filter == Filter::default() && running.erased.strong_count() > 0);
        candidates.min_by_key(|(part, _)| part.object == metadata).map(|(_, running)| running)
    }

    fn get_or_start<T: Object>(
        &self,
        resource: &ResourceType,
        filter: Filter,
        form: Form,
    ) -> Arc<Informer<T>> {
        self.start(&mut self.shared.running.lock(), resource.clone(), filter, form)
    }

    fn start<T: Object>(
        &self,
        running: &mut Table,
        resource: ResourceType,
        filter: Filter,
        form: Form,
    ) -> Arc<Informer<T>> {
        let part = Part { filter, object: TypeId::of::<T>() };
        if let Some(present) = running.get_mut(&resource).and_then(|parts| parts.get_mut(&part))
            && let Some(typed) = present.typed.upgrade()
            && let Ok(informer) = typed.downcast::<Informer<T>>()
        {
            present.keep();
            return informer;
        }
        keep_if(running, |running| running.erased.strong_count() > 0);
        let source = (self.shared.source)(&resource, &part.filter, form);
        // With the same seed, all informers would have the same jitter.
        let seed = self.shared.options.seed ^ FxBuildHasher.hash_one(&resource);
        let rng = StdRng::seed_from_u64(seed);
        let (era, options) = (self.shared.era.clone(), &self.shared.options);
        let informer = Arc::new(Informer::<T>::start_in(era, resource.clone(), source, options, rng));
        let kept: Arc<dyn AnyInformer> = informer.clone();
        let typed: Arc<dyn Any + Send + Sync> = informer.clone();
        let (typed, erased) = (Arc::downgrade(&typed), Arc::downgrade(&kept));
        running.entry(resource).or_default().insert(part, Running { typed, erased, kept: Some(kept) });
        informer
    }
}

/// All informers, sorted by resource.
fn each(table: &Table) -> impl Iterator<Item = &Running> {
    table.values().flat_map(BTreeMap::values)
}

fn keep_if(table: &mut Table, is_kept: impl Fn(&Running) -> bool) {
    table.retain(|_, parts| {
        parts.retain(|_, running| is_kept(running));
        !parts.is_empty()
    });
}
