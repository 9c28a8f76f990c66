//! The collections of a namespace, and what remains of each after its objects were deleted. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{ObjectMeta, Resource, ResourceType, Timestamp};
use flyball_client::Discovery;
use smol_str::SmolStr;

/// How long other controllers are expected to take to remove their finalizers.
const FINALIZER_TIME: Duration = Duration::from_secs(15);

/// The objects of one resource in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    pub resource: ResourceType,
    /// Whether its objects can be listed.
    pub can_list: bool,
    /// Whether all its objects can be deleted with one request.
    pub can_delete_collection: bool,
}

impl Collection {
    pub fn is_pods(&self) -> bool {
        self.resource == Pod::TYPE
    }
}

/// All collections that a namespace can have, in the version that the server prefers; pods first.
pub fn collections(discovery: &Discovery) -> Vec<Collection> {
    let found = discovery.resources.iter();
    let found =
        found.filter(|found| found.preferred && found.resource.namespaced && found.has_verb("delete"));
    let mut all: Vec<Collection> = found
        .map(|found| Collection {
            resource: found.resource.clone(),
            can_list: found.has_verb("list"),
            can_delete_collection: found.has_verb("deletecollection"),
        })
        .collect();
    all.sort_by_key(|collection| (!collection.is_pods(), collection.resource.clone()));
    all
}

/// The collections in two stages: with `pods_first` (the gate `OrderedNamespaceDeletion`) pods are the first, and all others the second.
pub fn stages(collections: Vec<Collection>, pods_first: bool) -> (Vec<Collection>, Vec<Collection>) {
    collections.into_iter().partition(|collection| pods_first && collection.is_pods())
}

/// Whether the second stage follows on the first: not while pods remain, since they may need other objects of the namespace to
/// terminate.
///
/// Upstream: namespaced_resources_deleter.go, deleteAllContent: pods that cannot be deleted or listed do not hold up the rest, either.
pub fn is_second_due<'a>(first: impl IntoIterator<Item = &'a Remains>) -> bool {
    first.into_iter().all(|remains| remains.objects == 0)
}

/// What remains of one collection after its objects were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// How long it may take until the objects are gone; zero if none remain, or if that is unknown.
    pub wait: Duration,
    pub objects: usize,
    /// How many of them have each finalizer.
    pub finalizers: BTreeMap<SmolStr, usize>,
    pub error: Option<String>,
}

impl Remains {
    /// What remains is unknown, because of an error.
    pub fn unknown(wait: Duration, error: impl ToString) -> Self {
        Self { wait, error: Some(error.to_string()), ..Self::default() }
    }

    pub fn add(&mut self, object: &ObjectMeta) {
        self.objects += 1;
        for finalizer in &object.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// What remains after a deletion. `listed` has what was found afterwards; `None` if the objects cannot be listed: then it is only known
    /// how long pods have.
    pub fn after_deletion(
        listed: Option<Self>,
        grace: Duration,
        namespace: &str,
        resource: &ResourceType,
    ) -> Self {
        match listed {
            Some(listed) => listed.assessed(grace, namespace, resource),
            None => Self { wait: grace, ..Self::default() },
        }
    }

    /// Sets how long to wait for the counted objects: the grace period of pods, or the time that finalizers take. It is an error if
    /// objects remain for neither reason.
    fn assessed(mut self, grace: Duration, namespace: &str, resource: &ResourceType) -> Self {
        if self.objects == 0 {
            return Self::default();
        }
        self.wait = match grace.is_zero() && !self.finalizers.is_empty() {
            true => FINALIZER_TIME,
            false => grace,
        };
        if self.wait.is_zero() {
            let ResourceType { group, version, plural, .. } = resource;
            self.error = Some(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
            ));
        }
        self
    }
}

/// The longest grace period of the pods of a namespace that was deleted at `deleted_at`. Zero once it has passed.
pub fn grace<'a>(pods: impl Iterator<Item = &'a Pod>, deleted_at: Timestamp, now: Timestamp) -> Duration {
    let running = pods.filter(|pod| !matches!(pod.status.phase, Phase::Succeeded | Phase::Failed));
    let seconds = running.filter_map(|pod| pod.spec.termination_grace_period_seconds).max().unwrap_or(0);
    let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let passed = Duration::try_from(now.duration_since(deleted_at)).unwrap_or(Duration::ZERO);
    if passed >= grace { Duration::ZERO } else { grace }
}
