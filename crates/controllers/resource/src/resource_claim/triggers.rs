//! What to sync after a change. Pure.

use std::fmt;

use flyball_api::pod::Pod;
use flyball_api::{Key, Object, PodGroup, ResourceClaim, ResourceClaimTemplate};
use flyball_cache::{Change, Index, Store};
use flyball_runtime::WorkKey;
use smol_str::{SmolStr, format_smolstr};

use super::consumer::{Consumer, is_done};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A ResourceClaim whose consumers may be gone.
    Claim(Key),
    /// A pod group that may need ResourceClaims.
    Group(Key),
    /// A pod that may need ResourceClaims.
    Pod(Key),
}

impl WorkKey for Work {
    fn object(&self) -> &Key {
        match self {
            Self::Claim(key) | Self::Group(key) | Self::Pod(key) => key,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => write!(f, "claim:{key}"),
            Self::Group(key) => write!(f, "podgroup:{key}"),
            Self::Pod(key) => write!(f, "pod:{key}"),
        }
    }
}

fn joined(namespace: &str, name: &str) -> SmolStr {
    format_smolstr!("{namespace}/{name}")
}

fn each_claim<'a>(consumer: Consumer<'a>) -> impl Iterator<Item = SmolStr> + use<'a> {
    let namespace = &consumer.meta.namespace;
    consumer.claims().map(move |name| joined(namespace, name))
}

fn each_template<'a>(consumer: Consumer<'a>) -> impl Iterator<Item = SmolStr> + use<'a> {
    let (namespace, entries) = (&consumer.meta.namespace, consumer.entries);
    let templates = entries.iter().filter_map(|entry| entry.resource_claim_template_name.as_ref());
    templates.map(move |name| joined(namespace, name))
}

/// Pods by the ResourceClaims of their entries.
pub const PODS_BY_CLAIM: Index<Pod> =
    Index::new("resourceclaim", |pod, emit| each_claim(pod.into()).for_each(|key| emit(&key)));
/// Pods by the templates of their entries.
pub const PODS_BY_TEMPLATE: Index<Pod> =
    Index::new("resourceclaimtemplate", |pod, emit| each_template(pod.into()).for_each(|key| emit(&key)));
/// Pods by their group.
pub const PODS_BY_GROUP: Index<Pod> = Index::new("podgroup", |pod, emit| {
    let group = &pod.spec.rare().pod_group_name;
    if !group.is_empty() {
        emit(&joined(&pod.metadata.namespace, group));
    }
});
/// Groups by the ResourceClaims of their entries.
pub const GROUPS_BY_CLAIM: Index<PodGroup> =
    Index::new("resourceclaim", |group, emit| each_claim(group.into()).for_each(|key| emit(&key)));
/// Groups by the templates of their entries.
pub const GROUPS_BY_TEMPLATE: Index<PodGroup> =
    Index::new("resourceclaimtemplate", |group, emit| each_template(group.into()).for_each(|key| emit(&key)));

/// Where consumers are looked up.
#[derive(Clone)]
pub struct Consumers {
    pub pods: Store<Pod>,
    /// All groups, if the gate is on.
    pub groups: Option<Store<PodGroup>>,
}

/// What to sync because of a pod, which is still there or gone.
pub fn of_pod(pod: &Pod, is_gone: bool) -> Vec<Work> {
    let namespace = &pod.metadata.namespace;
    let extended = &pod.status.rare().extended_resource_claim;
    let consumer = Consumer::from(pod);
    let mut work = vec![];
    if consumer.entries.is_empty() && extended.is_empty() {
        return work;
    }
    if is_gone || is_done(pod) {
        let released = consumer.claims().chain(Some(extended).filter(|name| !name.is_empty()));
        work.extend(released.map(|name| Work::Claim(Key::new(namespace.as_str(), name.as_str()))));
    }
    if !is_gone && !pod.metadata.is_deleting() && !consumer.entries.is_empty() {
        work.push(Work::Pod(pod.key()));
    }
    work
}

/// What to sync because of a group: the group, and its pods.
pub fn of_group(group: &PodGroup, is_gone: bool, consumers: &Consumers) -> Vec<Work> {
    let (key, consumer) = (group.key(), Consumer::from(group));
    if consumer.entries.is_empty() {
        return vec![];
    }
    let mut work: Vec<Work> = match is_gone {
        true => {
            let name = |name: &SmolStr| Work::Claim(Key::new(key.namespace.as_str(), name.as_str()));
            consumer.claims().map(name).collect()
        }
        false if group.metadata.is_deleting() => vec![],
        false => vec![Work::Group(key.clone())],
    };
    let members = consumers.pods.by(&PODS_BY_GROUP, &joined(&key.namespace, &key.name));
    work.extend(members.iter().flat_map(|pod| of_pod(pod, false)));
    work
}

pub fn pod_changed(change: &Change<'_, Pod>) -> Vec<Work> {
    match (change.new, change.old) {
        (Some(pod), _) => of_pod(pod, false),
        (None, Some(pod)) => of_pod(pod, true),
        (None, None) => vec![],
    }
}

pub fn group_changed(change: &Change<'_, PodGroup>, consumers: &Consumers) -> Vec<Work> {
    match (change.new, change.old) {
        (Some(group), _) => of_group(group, false, consumers),
        (None, Some(group)) => of_group(group, true, consumers),
        (None, None) => vec![],
    }
}

/// The ResourceClaim, and its consumers.
pub fn claim_changed(change: &Change<'_, ResourceClaim>, consumers: &Consumers) -> Vec<Work> {
    let key = change.key();
    let mut work: Vec<Work> = change.new.map(|_| Work::Claim(key.clone())).into_iter().collect();
    let at = joined(&key.namespace, &key.name);
    work.extend(consumers.pods.by(&PODS_BY_CLAIM, &at).iter().flat_map(|pod| of_pod(pod, false)));
    let groups = consumers.groups.iter().flat_map(|groups| groups.by(&GROUPS_BY_CLAIM, &at));
    work.extend(groups.flat_map(|group| of_group(&group, false, consumers)));
    work
}

/// The consumers that a new or changed template is for.
pub fn template_changed(change: &Change<'_, ResourceClaimTemplate>, consumers: &Consumers) -> Vec<Work> {
    if change.new.is_none() {
        return vec![];
    }
    let key = change.key();
    let at = joined(&key.namespace, &key.name);
    let pods = consumers.pods.by(&PODS_BY_TEMPLATE, &at);
    let mut work: Vec<Work> = pods.iter().flat_map(|pod| of_pod(pod, false)).collect();
    let groups = consumers.groups.iter().flat_map(|groups| groups.by(&GROUPS_BY_TEMPLATE, &at));
    work.extend(groups.flat_map(|group| of_group(&group, false, consumers)));
    work
}
