//! Objects as the page gets them: short arrays, since there may be ten thousand. Nothing of a Secret, of an environment or of
//! an annotation is in them.

use std::sync::Arc;

use flyball_api::daemon_set::DaemonSet;
use flyball_api::deployment::Deployment;
use flyball_api::job::Job;
use flyball_api::namespace::Namespace;
use flyball_api::node::Node;
use flyball_api::persistent_volume_claim::PersistentVolumeClaim;
use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSet;
use flyball_api::stateful_set::StatefulSet;
use flyball_api::{Key, ObjectMeta, Resource, topology};
use flyball_cache::{Informer, Informers};
use serde_json::value::{RawValue, to_raw_value};

use crate::acts::{Acts, Switch};
use crate::state::{self, Amounts, State};

/// What is needed beside the object itself.
#[derive(Clone)]
pub(crate) struct Around {
    sets: Option<Arc<Informer<ReplicaSet>>>,
    acts: Option<Arc<dyn Acts>>,
}

impl Around {
    pub(crate) fn new(informers: &Informers, acts: Option<Arc<dyn Acts>>) -> Self {
        Self { sets: informers.started(), acts }
    }

    /// The object at the top of the owners of a pod, as `Deployment/web`; a pod without an owner has none.
    fn top(&self, pod: &ObjectMeta) -> String {
        let Some(owner) = pod.controller() else { return String::new() };
        let set = match (&self.sets, owner.kind.as_str()) {
            (Some(sets), "ReplicaSet") => {
                sets.store().get(&Key::new(pod.namespace.clone(), owner.name.clone()))
            }
            _ => None,
        };
        let above = set.as_ref().and_then(|set| set.metadata.controller());
        let top = above.unwrap_or(owner);
        format!("{}/{}", top.kind, top.name)
    }
}

/// A kind that the page shows. A row begins with namespace, name, level, text and since.
pub(crate) trait Shown: Resource {
    /// Whether the page has a row for this object.
    fn is_shown(&self) -> bool {
        true
    }

    fn state(&self) -> State;

    fn row(&self, around: &Around) -> Option<Box<RawValue>>;
}

fn since(state: &State) -> i64 {
    state.since.map_or(0, |since| since.as_second())
}

fn with_amounts(meta: &ObjectMeta, state: &State, amounts: Amounts) -> Option<Box<RawValue>> {
    let row = (
        meta.namespace.as_str(),
        meta.name.as_str(),
        state.level as u8,
        state.text.as_str(),
        since(state),
        amounts.ready,
        amounts.wanted,
    );
    to_raw_value(&row).ok()
}

/// For ReplicaSets of a Deployment and Jobs of a CronJob: their owner has a row.
fn has_no_owner(meta: &ObjectMeta) -> bool {
    meta.controller().is_none()
}

impl Shown for Pod {
    fn state(&self) -> State {
        state::pod(self)
    }

    fn row(&self, around: &Around) -> Option<Box<RawValue>> {
        let (meta, state) = (&self.metadata, state::pod(self));
        let restarts: i32 =
            self.status.container_statuses.iter().map(|container| container.restart_count).sum();
        let row = (
            meta.namespace.as_str(),
            meta.name.as_str(),
            state.level as u8,
            state.text.as_str(),
            since(&state),
            self.spec.node_name.as_str(),
            around.top(meta),
            restarts,
        );
        to_raw_value(&row).ok()
    }
}

impl Shown for Node {
    fn state(&self) -> State {
        state::node(self)
    }

    fn row(&self, around: &Around) -> Option<Box<RawValue>> {
        let (meta, state) = (&self.metadata, state::node(self));
        let switch = around.acts.as_ref().map_or(Switch::None, |acts| acts.switch(self));
        let row = (
            "",
            meta.name.as_str(),
            state.level as u8,
            state.text.as_str(),
            since(&state),
            meta.labels.get(topology::ZONE).unwrap_or_default(),
            switch,
        );
        to_raw_value(&row).ok()
    }
}

macro_rules! shown {
    ($kind:ty, $state:path, $amounts:expr, $is_shown:expr) => {
        impl Shown for $kind {
            fn is_shown(&self) -> bool {
                $is_shown(&self.metadata)
            }

            fn state(&self) -> State {
                $state(self)
            }

            fn row(&self, _: &Around) -> Option<Box<RawValue>> {
                with_amounts(&self.metadata, &$state(self), $amounts(self))
            }
        }
    };
}

shown!(Deployment, state::deployment, state::deployment_amounts, |_| true);
shown!(StatefulSet, state::stateful_set, state::stateful_set_amounts, |_| true);
shown!(DaemonSet, state::daemon_set, state::daemon_set_amounts, |_| true);
shown!(ReplicaSet, state::replica_set, state::replica_set_amounts, has_no_owner);
shown!(Job, state::job, state::job_amounts, |_| true);
shown!(PersistentVolumeClaim, state::claim, |_| Amounts::default(), |_| true);
shown!(Namespace, state::namespace, |_| Amounts::default(), |_| true);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_of_a_pod_has_its_place_and_no_secret() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "web-1", "annotations": {"a": "hunter2"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": true}],
            },
            "spec": {
                "nodeName": "node-1",
                "containers": [{"name": "a", "env": [{"name": "PASSWORD", "value": "hunter2"}]}],
            },
            "status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:07Z"}],
                "containerStatuses": [{"name": "a", "restartCount": 4}],
            },
        }))
        .unwrap();
        let around = Around { sets: None, acts: None };
        let row = pod.row(&around).unwrap();
        assert_eq!(row.get(), r#"["shop","web-1",0,"ready",7,"node-1","StatefulSet/web",4]"#);
    }
}
