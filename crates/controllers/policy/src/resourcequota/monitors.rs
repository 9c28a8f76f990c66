//! Runs an informer for each resource that quotas can limit, by metadata only where that is enough to count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{DeviceClass, PersistentVolumeClaim, Resource, ResourceClaim, ResourceType, Service};
use flyball_cache::{AnyInformer, Subscription};
use flyball_client::Discovery;
use flyball_common::discovery::{Follow, filled};
use flyball_runtime::Context;
use parking_lot::Mutex;

use super::catalog::quotable;
use super::shared::Shared;
use super::triggers;
use super::usage::device_claims::Claims;
use super::usage::{Objects, Source, id};

/// How long new lists may take before quotas are synced without them.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Monitors {
    cx: Arc<Context>,
    shared: Arc<Shared>,
    running: Mutex<BTreeMap<ResourceType, Monitor>>,
}

/// The informers for one resource.
struct Monitor {
    informers: Vec<Arc<dyn AnyInformer>>,
    /// Whether quotas have been queued since its objects are known.
    is_announced: bool,
    _subscription: Subscription,
}

impl Monitor {
    fn is_filled(&self) -> bool {
        self.informers.iter().all(|informer| informer.has_synced())
    }

    fn is_stopped(&self) -> bool {
        self.informers.iter().any(|informer| informer.health().stopped)
    }
}

impl Monitors {
    pub(super) fn new(cx: Arc<Context>, shared: Arc<Shared>) -> Self {
        Self { cx, shared, running: Mutex::default() }
    }
}

impl Follow for Monitors {
    /// Starts informers for new resources and stops those of resources that are no longer served.
    async fn follow(&self, discovery: &Discovery) {
        let followed: Vec<ResourceType> = self.running.lock().keys().cloned().collect();
        let wanted = quotable(discovery, followed.iter().cloned());
        let unwanted = followed.iter().filter(|resource| !wanted.contains(resource));
        let (moved, gone): (Vec<_>, Vec<_>) =
            unwanted.partition(|resource| wanted.iter().any(|other| id(other) == id(resource)));
        for resource in gone {
            self.stop(resource, false);
        }
        for resource in &wanted {
            self.start(resource);
        }
        // Only now: until the new version is there, `Shared` counts on the informer of the old one, and so keeps it.
        for resource in moved {
            self.stop(resource, true);
        }
        self.await_lists().await;
        self.announce();
    }
}

impl Monitors {
    /// Waits for new lists, with a timeout.
    async fn await_lists(&self) {
        let waiting: Vec<Arc<dyn AnyInformer>> = {
            let running = self.running.lock();
            running
                .values()
                .filter(|monitor| !monitor.is_announced)
                .flat_map(|monitor| monitor.informers.clone())
                .collect()
        };
        let late = filled(&waiting, LIST_TIMEOUT).await;
        if !late.is_empty() {
            tracing::warn!(
                ?late,
                "some resources cannot be listed; what is used of them stays as last known"
            );
        }
    }

    /// Queues the quotas that limit a resource whose objects have become known.
    fn announce(&self) {
        let mut filled = vec![];
        for (resource, monitor) in self.running.lock().iter_mut() {
            if !monitor.is_announced && monitor.is_filled() {
                monitor.is_announced = true;
                filled.push(id(resource));
            }
        }
        for id in &filled {
            self.shared.resource_changed(id);
        }
    }

    fn stop(&self, resource: &ResourceType, is_moved: bool) {
        let Some(monitor) = self.running.lock().remove(resource) else { return };
        if !is_moved {
            self.shared.retire(&id(resource));
            self.shared.resource_changed(&id(resource));
            tracing::info!(%resource, "resource is no longer served, its objects are no longer counted");
        }
        drop(monitor);
        self.cx.informers.release(resource);
    }

    /// Starts the informers of a resource, unless they run already.
    fn start(&self, resource: &ResourceType) {
        if self.running.lock().get(resource).is_some_and(|monitor| !monitor.is_stopped()) {
            return;
        }
        let (objects, informers, subscription) = self.open(resource);
        // An amount that is counted on a cache that lags is too low, and admission would let in too much.
        informers.iter().for_each(|informer| self.cx.needs(informer));
        let seen = informers.clone();
        let source =
            Source::new(&id(resource), objects, move || seen.iter().all(|informer| informer.has_synced()));
        self.shared.put(id(resource), source);
        let monitor = Monitor { informers, is_announced: false, _subscription: subscription };
        self.running.lock().insert(resource.clone(), monitor);
    }

    /// The caches of a resource, and a trigger for changes after which less is used.
    fn open(&self, resource: &ResourceType) -> (Objects, Vec<Arc<dyn AnyInformer>>, Subscription) {
        let (cx, shared, id) = (&self.cx, self.shared.clone(), id(resource));
        let features = shared.features;
        if *resource == Pod::TYPE {
            let (pods, clock) = (cx.informer::<Pod>(), cx.clock);
            let subscription = cx.subscribe(&pods, move |change| {
                if triggers::pod_uses_less(change, features.resize, clock.now()) {
                    shared.replenish(&id, &change.object().metadata.namespace);
                }
            });
            return (Objects::Pods(pods.store().clone()), vec![pods], subscription);
        }
        if *resource == Service::TYPE {
            let services = cx.informer::<Service>();
            let subscription = cx.subscribe(&services, move |change| {
                if triggers::service_uses_less(change) {
                    shared.replenish(&id, &change.object().metadata.namespace);
                }
            });
            return (Objects::Services(services.store().clone()), vec![services], subscription);
        }
        if *resource == PersistentVolumeClaim::TYPE {
            let claims = cx.informer::<PersistentVolumeClaim>();
            let subscription = cx.subscribe(&claims, move |change| {
                if triggers::claim_uses_less(change) {
                    shared.replenish(&id, &change.object().metadata.namespace);
                }
            });
            return (Objects::VolumeClaims(claims.store().clone()), vec![claims], subscription);
        }
        let (objects, informers) = match *resource == ResourceClaim::TYPE && features.devices {
            true => self.open_device_claims(),
            false => {
                let informer = cx.informers.observe(resource);
                let counted = informer.clone();
                let count = move |namespace: &str| counted.count_in_namespace(namespace);
                (Objects::Others(Box::new(count)), vec![informer])
            }
        };
        let subscription = cx.subscribe_meta(&*informers[0], move |change| {
            if let Some(deleted) = change.old.filter(|_| triggers::is_deleted(change)) {
                shared.replenish(&id, &deleted.namespace);
            }
        });
        (objects, informers, subscription)
    }

    /// ResourceClaims; with pods and device classes, if extended resources may be backed by devices.
    fn open_device_claims(&self) -> (Objects, Vec<Arc<dyn AnyInformer>>) {
        let claims = self.cx.informer::<ResourceClaim>();
        let mut informers: Vec<Arc<dyn AnyInformer>> = vec![claims.clone()];
        let extended = self.shared.features.extended_devices.then(|| {
            let (pods, classes) = (self.cx.informer::<Pod>(), self.cx.informer::<DeviceClass>());
            informers.extend([pods.clone() as Arc<dyn AnyInformer>, classes.clone()]);
            (pods.store().clone(), classes.store().clone())
        });
        (Objects::DeviceClaims(Claims { claims: claims.store().clone(), extended }), informers)
    }
}
