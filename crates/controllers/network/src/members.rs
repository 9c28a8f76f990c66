//! The pods of a Service: which Services a change of a pod concerns, and what a Service publishes of a pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::object_reference::{ObjectReference, SharedReference};
use flyball_api::pod::Pod;
use flyball_api::{Key, Labels, Object, Service};
use flyball_cache::{Change, Index, Informer, Origin, Store};
use flyball_common::labelled::{PODS_BY_LABEL, digest, has_all, selector_keys};
use flyball_queue::{Priority, Queue};
use flyball_runtime::Tasks;
use smol_str::SmolStr;

/// Services by one of the labels they select; those with an empty selector by their namespace.
const SERVICES_BY_SELECTOR: Index<Service> = Index::new("selector", |service, emit| {
    if let Some(selector) = &service.spec.selector {
        emit(&digest(&service.metadata.namespace, selector.iter().next()));
    }
});

/// Feeds `queue` with the Services that changes of pods concern, after `batch_period`, so that one sync covers the changes
/// of many pods.
pub(crate) fn feed(
    tasks: &mut Tasks,
    queue: &Queue<Key>,
    services: &Arc<Informer<Service>>,
    pods: &Arc<Informer<Pod>>,
    batch_period: Duration,
) {
    services.index(&SERVICES_BY_SELECTOR);
    pods.index(&PODS_BY_LABEL);
    let (queue, services) = (queue.clone(), services.clone());
    tasks.on(pods, move |change| {
        for key in pod_changed(change, services.store()) {
            if change.origin.is_fresh() {
                queue.add_after(key, batch_period);
            } else {
                queue.add(key, Priority::Sweep);
            }
        }
    });
}

/// The Services that select a pod.
fn services_of(services: &Store<Service>, pod: &Pod) -> BTreeSet<Key> {
    let (namespace, labels) = (&pod.metadata.namespace, &pod.metadata.labels);
    let candidates =
        selector_keys(namespace, labels).flat_map(|key| services.by(&SERVICES_BY_SELECTOR, &key));
    let wants = |service: &Arc<Service>| {
        let selector = service.spec.selector.as_ref();
        service.metadata.namespace == *namespace && selector.is_some_and(|selector| has_all(labels, selector))
    };
    candidates.filter(wants).map(|service| service.key()).collect()
}

/// The Services whose addresses a change of a pod may change.
fn pod_changed(change: &Change<'_, Pod>, services: &Store<Service>) -> BTreeSet<Key> {
    let (old, new) = match (change.old, change.new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(pod)) | (Some(pod), None) => return services_of(services, pod),
        (None, None) => return BTreeSet::new(),
    };
    if change.origin == Origin::Resync {
        return BTreeSet::new(); // Services are resynced themselves
    }
    let changed = has_changed(old, new);
    if old.metadata.labels == new.metadata.labels {
        return if changed { services_of(services, new) } else { BTreeSet::new() };
    }
    let (before, after) = (services_of(services, old), services_of(services, new));
    if changed { &before | &after } else { &before ^ &after }
}

/// Whether the pod would be published differently.
fn has_changed(old: &Pod, new: &Pod) -> bool {
    old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.is_ready() != new.is_ready()
        || old.is_finished() != new.is_finished()
        || old.status.pod_ips != new.status.pod_ips
}

/// Whether a pod has an address to publish. A finished pod has lost it, even if its status still contains it.
pub(crate) fn has_address(pod: &Pod) -> bool {
    !pod.is_finished() && !pod.status.pod_ips.is_empty()
}

/// The hostname that is published with a pod's address: only by the Service that is named as its subdomain.
pub(crate) fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a SmolStr> {
    let rare = pod.spec.rare();
    let is_its_domain =
        rare.subdomain == service.metadata.name && pod.metadata.namespace == service.metadata.namespace;
    Some(&rare.hostname).filter(|hostname| is_its_domain && !hostname.is_empty())
}

/// The selector of a Service whose addresses are those of pods.
pub(crate) fn selector(service: &Service) -> Option<&Labels> {
    service.spec.selector.as_ref().filter(|_| service.spec.type_ != "ExternalName")
}

/// The `targetRef` of a pod's address.
pub(crate) fn reference(pod: &Pod) -> SharedReference {
    let reference = ObjectReference {
        kind: SmolStr::new_static("Pod"),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    reference.into()
}
