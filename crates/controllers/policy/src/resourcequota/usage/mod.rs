//! The usage of a quota: the sum over the objects of its namespace that it counts. Pure, except that it reads caches, one
//! namespace at a time.

pub mod device_claims;
pub mod pods;
pub mod services;
pub mod volume_claims;

use std::collections::BTreeMap;

use flyball_api::pod::{Pod, ResourceOptions};
use flyball_api::{PersistentVolumeClaim, ResourceList, ResourceQuota, ResourceType, Service, Timestamp};
use flyball_cache::Store;
use flyball_runtime::gates::{Gate, Gates};
use smol_str::SmolStr;

use super::names::{OfPods, OfServices, OfVolumeClaims, counts_of};
use super::scopes::Scopes;
use device_claims::Claims;

/// The feature gates on which usage depends.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// Pods may request resources for all containers together.
    pub pod_level_resources: bool,
    /// The actual resources of a pod count besides its requests.
    pub resize: bool,
    pub devices: bool,
    /// Extended resources may be backed by devices.
    pub extended_devices: bool,
    /// A failed expansion may be reverted.
    pub volume_recovery: bool,
    /// Claims may be selected by their attributes class.
    pub volume_attributes: bool,
}

impl Features {
    pub fn of(gates: &Gates) -> Self {
        Self {
            pod_level_resources: gates.enabled(Gate::PodLevelResources),
            resize: gates.enabled(Gate::InPlacePodVerticalScaling),
            devices: gates.enabled(Gate::DynamicResourceAllocation),
            extended_devices: gates.enabled(Gate::DRAExtendedResource),
            volume_recovery: gates.enabled(Gate::RecoverVolumeExpansionFailure),
            volume_attributes: gates.enabled(Gate::VolumeAttributesClass),
        }
    }

    fn pod_options(self) -> ResourceOptions {
        ResourceOptions {
            use_status: self.resize,
            skip_pod_level: !self.pod_level_resources,
            exclude_overhead: false,
        }
    }
}

/// Group and plural of a resource.
pub type Id = (SmolStr, SmolStr);

pub fn id(resource: &ResourceType) -> Id {
    (resource.group.clone(), resource.plural.clone())
}

pub enum Objects {
    /// Counted by their requests.
    Pods(Store<Pod>),
    /// Counted by node ports and load balancers.
    Services(Store<Service>),
    /// Counted by bytes and class.
    VolumeClaims(Store<PersistentVolumeClaim>),
    DeviceClaims(Claims),
    /// Any other resource: the number of objects in a namespace.
    Others(Box<dyn Fn(&str) -> usize + Send + Sync>),
    /// No longer served: no objects.
    Gone,
}

/// One resource that quotas can limit.
pub struct Source {
    /// The names that count its objects.
    counts: Vec<SmolStr>,
    objects: Objects,
    is_filled: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Source {
    /// The objects of a resource, which are all known once `is_filled`.
    pub fn new(id: &Id, objects: Objects, is_filled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { counts: counts_of(&id.0, &id.1), objects, is_filled: Box::new(is_filled) }
    }

    /// Whether all objects are known.
    pub fn is_filled(&self) -> bool {
        (self.is_filled)()
    }

    /// Whether `name` measures something of these objects.
    pub fn measures(&self, name: &str) -> bool {
        match &self.objects {
            Objects::Pods(_) => OfPods::parse(name).is_some(),
            Objects::Services(_) => OfServices::parse(name).is_some(),
            Objects::VolumeClaims(_) => OfVolumeClaims::parse(name).is_some(),
            Objects::DeviceClaims(claims) => claims.measure(name),
            Objects::Others(_) | Objects::Gone => self.counts.iter().any(|count| count == name),
        }
    }

    /// The names among these under which the objects are measured.
    fn names<'a>(&self, hard: &'a ResourceList) -> Vec<&'a str> {
        let names = || hard.iter().map(|(name, _)| name);
        match &self.objects {
            _ if !names().any(|name| self.measures(name)) => vec![],
            Objects::DeviceClaims(claims) => {
                names().filter(|name| claims.measure(name) || claims.measure_besides(name)).collect()
            }
            _ => names().filter(|name| self.measures(name)).collect(),
        }
    }

    fn usage(&self, namespace: &str, names: &[&str], view: &View<'_>) -> ResourceList {
        let &View { features, now, scopes } = view;
        let all = |count: usize| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            names.iter().map(|name| (*name, flyball_api::Quantity::new(count))).collect()
        };
        match &self.objects {
            Objects::Pods(store) => pods::usage(&store.in_namespace(namespace), names, scopes, features, now),
            Objects::VolumeClaims(store) => {
                volume_claims::usage(&store.in_namespace(namespace), names, scopes, features)
            }
            // Objects of other kinds are in no scope.
            _ if !scopes.is_empty() => all(0),
            Objects::Services(store) => services::usage(&store.in_namespace(namespace), names),
            Objects::DeviceClaims(claims) => claims.usage(namespace, names, features, now),
            Objects::Others(count) => all(count(namespace)),
            Objects::Gone => all(0),
        }
    }
}

/// What a sum depends on besides the objects.
struct View<'a> {
    scopes: &'a Scopes,
    features: Features,
    now: Timestamp,
}

/// All resources that quotas can limit.
#[derive(Default)]
pub struct Sources(BTreeMap<Id, Source>);

impl Sources {
    /// Adds or replaces a resource.
    pub fn put(&mut self, id: Id, source: Source) {
        self.0.insert(id, source);
    }

    /// A resource that is no longer served counts as zero.
    pub fn retire(&mut self, id: &Id) {
        self.put(id.clone(), Source::new(id, Objects::Gone, || true));
    }

    /// Whether limits measure objects of a resource.
    pub fn concerns(&self, id: &Id, hard: &ResourceList) -> bool {
        self.0.get(id).is_some_and(|source| hard.iter().any(|(name, _)| source.measures(name)))
    }

    /// Whether `name` measures anything.
    pub fn measure(&self, name: &str) -> bool {
        self.0.values().any(|source| source.measures(name))
    }

    pub fn usage(&self, quota: &ResourceQuota, features: Features, now: Timestamp) -> Usage {
        let scopes = Scopes::of(&quota.spec);
        let view = View { scopes: &scopes, features, now };
        let mut usage = Usage::default();
        let mut unknown: Vec<&str> = vec![];
        for ((group, plural), source) in &self.0 {
            let names = source.names(&quota.spec.hard);
            if names.is_empty() {
                continue;
            }
            if source.is_filled() {
                usage.used.add(&source.usage(&quota.metadata.namespace, &names, &view));
            } else {
                usage.unknown.push((group.clone(), plural.clone()));
                unknown.extend(names);
            }
        }
        usage.used = usage.used.filtered(|name| !unknown.contains(&name));
        usage
    }
}

/// The usage of a quota, as far as it is known.
#[derive(Debug, Default, PartialEq)]
pub struct Usage {
    pub used: ResourceList,
    /// Resources that could not be listed yet. Amounts that depend on them are left out.
    pub unknown: Vec<Id>,
}
