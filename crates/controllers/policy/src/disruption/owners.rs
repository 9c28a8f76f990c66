//! The scale of owners whose kinds are cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{
    Deployment, Key, Labels, ObjectMeta, OwnerReference, ReplicaSet, ReplicationController, Resource,
    StatefulSet, Uid,
};
use flyball_cache::Informer;
use smol_str::SmolStr;

/// A kind with a number of replicas.
pub(super) trait Scaled {
    fn replicas(&self) -> i32;
    /// The labels of its pod template.
    fn pod_labels(&self) -> Option<&Labels>;
}

macro_rules! scaled {
    ($($kind:ty),*) => {$(
        impl Scaled for $kind {
            fn replicas(&self) -> i32 {
                self.spec.replicas.unwrap_or(1)
            }

            fn pod_labels(&self) -> Option<&Labels> {
                Some(&self.spec.template.metadata.labels)
            }
        }
    )*};
}

scaled!(ReplicaSet, Deployment, StatefulSet);

impl Scaled for ReplicationController {
    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn pod_labels(&self) -> Option<&Labels> {
        self.spec.template.as_ref().map(|template| &template.metadata.labels)
    }
}

/// An owner and its number of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scale {
    /// Of the owner, or of the Deployment above it: ReplicaSets of one Deployment are counted once.
    pub(super) uid: Uid,
    pub(super) replicas: i32,
}

/// The replicas of the owners of a budget's pods.
#[derive(Debug, Default)]
pub(super) struct Total(BTreeMap<SmolStr, i32>);

impl Total {
    pub(super) fn add(&mut self, scale: &Scale) {
        self.0.insert(scale.uid.to_smol_str(), scale.replicas);
    }

    pub(super) fn replicas(&self) -> i32 {
        self.0.values().fold(0, |sum, replicas| sum.saturating_add(*replicas))
    }
}

/// The caches of the kinds that own most pods.
pub(super) struct Owners {
    pub(super) replication_controllers: Arc<Informer<ReplicationController>>,
    pub(super) replica_sets: Arc<Informer<ReplicaSet>>,
    pub(super) deployments: Arc<Informer<Deployment>>,
    pub(super) stateful_sets: Arc<Informer<StatefulSet>>,
}

impl Owners {
    /// The scale of an owner; `None` if it is not cached, which does not mean that it is gone.
    pub(super) fn scale(&self, namespace: &str, owner: &OwnerReference) -> Option<Scale> {
        match (owner.group(), owner.kind.as_str()) {
            ("", "ReplicationController") => {
                find(&self.replication_controllers, namespace, owner).map(|it| scale(&*it))
            }
            ("apps", "StatefulSet") => find(&self.stateful_sets, namespace, owner).map(|it| scale(&*it)),
            ("apps" | "extensions", "ReplicaSet") => {
                let set = find(&self.replica_sets, namespace, owner)?;
                match deployment_of(&set.metadata) {
                    // During a rollout pods move between ReplicaSets: the scale of the Deployment counts.
                    Some(above) => find(&self.deployments, namespace, above).map(|it| scale(&*it)),
                    None => Some(scale(&*set)),
                }
            }
            _ => None,
        }
    }
}

fn deployment_of(set: &ObjectMeta) -> Option<&OwnerReference> {
    set.controller().filter(|above| above.kind == "Deployment")
}

fn find<T: Resource>(informer: &Informer<T>, namespace: &str, owner: &OwnerReference) -> Option<Arc<T>> {
    let found = informer.store().get(&Key::new(namespace, owner.name.as_str()))?;
    (*found.uid() == owner.uid).then_some(found)
}

fn scale<T: Scaled + Resource>(owner: &T) -> Scale {
    Scale { uid: owner.uid().clone(), replicas: owner.replicas() }
}
