//! What is in a namespace and has to go, and what is left of it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_api::pod::{Phase, Pod};
use flyball_api::{ObjectMeta, Resource, ResourceType, Timestamp};
use flyball_client::Discovery;
use smol_str::SmolStr;

/// How long finalizers of others are supposed to take.
const FINALIZERS_TAKE: Duration = Duration::from_secs(15);

/// A resource that may have objects in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    pub resource: ResourceType,
    /// Whether its objects can be listed.
    pub can_list: bool,
    /// Whether all its objects can be deleted with one request.
    pub can_clear: bool,
}

impl Collection {
    /// Whether it is that of the pods.
    pub fn is_pods(&self) -> bool {
        self.resource == Pod::TYPE
    }
}

/// All collections that a namespace can have, in the version that the server prefers; the pods come first.
pub fn collections(discovery: &Discovery) -> Vec<Collection> {
    let found = discovery.resources.iter();
    let found =
        found.filter(|found| found.preferred && found.resource.namespaced && found.has_verb("delete"));
    let mut all: Vec<Collection> = found
        .map(|found| Collection {
            resource: found.resource.clone(),
            can_list: found.has_verb("list"),
            can_clear: found.has_verb("deletecollection"),
        })
        .collect();
    all.sort_by_key(|collection| (!collection.is_pods(), collection.resource.clone()));
    all
}

/// What is left of one collection after everything in it was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// How long it may take until that is gone; zero when nobody can say.
    pub wait: Duration,
    pub objects: usize,
    /// How many of them each finalizer holds.
    pub finalizers: BTreeMap<SmolStr, usize>,
    pub error: Option<String>,
}

impl Remains {
    /// Nothing is known about what is left, because of this.
    pub fn unknown(wait: Duration, error: impl ToString) -> Self {
        Self { wait, error: Some(error.to_string()), ..Self::default() }
    }

    pub fn add(&mut self, object: &ObjectMeta) {
        self.objects += 1;
        for finalizer in &object.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }

    /// What the counted objects mean, when pods may take `grace` to end: to wait, or that something is wrong.
    pub fn judged(mut self, grace: Duration, namespace: &str, resource: &ResourceType) -> Self {
        if self.objects == 0 {
            return Self::default();
        }
        self.wait = match grace.is_zero() && !self.finalizers.is_empty() {
            true => FINALIZERS_TAKE,
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

/// How long the pods of a namespace may still take to end. Past that time their end is overdue, and zero.
pub fn grace<'a>(pods: impl Iterator<Item = &'a Pod>, deleted_at: Timestamp, now: Timestamp) -> Duration {
    let running = pods.filter(|pod| !matches!(pod.status.phase, Phase::Succeeded | Phase::Failed));
    let seconds = running.filter_map(|pod| pod.spec.termination_grace_period_seconds).max().unwrap_or(0);
    let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let passed = Duration::try_from(now.duration_since(deleted_at)).unwrap_or(Duration::ZERO);
    if passed >= grace { Duration::ZERO } else { grace }
}

/// When to look again at a namespace in which something needs `wait` to go.
pub fn look_again_after(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() / 2 + 1)
}
