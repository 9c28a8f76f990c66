//! Builds snapshots from lines of text.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Deployment, ReplicaSet, Timestamp};
use serde_json::{Value, json};

use crate::deployment::annotations::{
    DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, ROLLBACK_TO,
};
use crate::deployment::decision::{Action, Decision, View, decide};
use crate::deployment::invariants;
use crate::deployment::limits::Limits;
use crate::deployment::rollback::Rollback;

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

pub(super) fn ago(seconds: i64) -> String {
    flyball_api::time::format_seconds(Timestamp::from_second(now().as_second() - seconds).unwrap())
}

fn bound(text: &str) -> Value {
    text.parse::<i32>().map_or_else(|_| json!(text), |number| json!(number))
}

fn template(image: &str, hash: Option<&str>) -> Value {
    let mut labels = json!({"app": "web"});
    if let Some(hash) = hash {
        labels["pod-template-hash"] = json!(hash);
    }
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A Deployment named `web` of template `new` from words: `replicas=N`, `surge=X`, `unavailable=X`, `recreate`,
/// `paused`, `deleting`, `rollback=N`, `limit=N`, `deadline=N`, `minready=N`, `revision=N`, `image=X`,
/// `collisions=N`, `note=KEY:VALUE`, and of its status `complete`, `reason=X`, `since=SECONDS` (of the last
/// progress) and `about=SET` (that this is about, if not `new`).
pub(super) fn deployment(text: &str) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "uid-web", "resourceVersion": "1", "generation": 3,
            "annotations": {}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("new", None),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
        "status": {},
    });
    let (mut reason, mut since, mut about) = ("", 0, "new");
    for word in text.split_whitespace() {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<i64>().unwrap();
        match word {
            "replicas" => object["spec"]["replicas"] = json!(number()),
            "surge" => object["spec"]["strategy"]["rollingUpdate"]["maxSurge"] = bound(value),
            "unavailable" => object["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] = bound(value),
            "recreate" => object["spec"]["strategy"] = json!({"type": "Recreate"}),
            "paused" => object["spec"]["paused"] = json!(true),
            "deleting" => object["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "rollback" => object["metadata"]["annotations"][ROLLBACK_TO] = json!(value),
            "limit" => object["spec"]["revisionHistoryLimit"] = json!(number()),
            "deadline" => object["spec"]["progressDeadlineSeconds"] = json!(number()),
            "minready" => object["spec"]["minReadySeconds"] = json!(number()),
            "revision" => object["metadata"]["annotations"][REVISION] = json!(value),
            "image" => object["spec"]["template"] = template(value, None),
            "collisions" => object["status"]["collisionCount"] = json!(number()),
            "note" => {
                let (key, value) = value.split_once(':').unwrap();
                object["metadata"]["annotations"][key] = json!(value);
            }
            "complete" => {
                let replicas = object["spec"]["replicas"].clone();
                for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
                    object["status"][field] = replicas.clone();
                }
                object["status"]["observedGeneration"] = json!(3);
            }
            "reason" => reason = value,
            "since" => since = number(),
            "about" => about = value,
            other => panic!("unknown word {other}"),
        }
    }
    if !reason.is_empty() {
        let truth = match reason {
            "ProgressDeadlineExceeded" | "ReplicaSetCreateError" => "False",
            "DeploymentPaused" | "DeploymentResumed" => "Unknown",
            _ => "True",
        };
        object["status"]["conditions"] = json!([{"type": "Progressing", "status": truth, "reason": reason,
            "message": format!("ReplicaSet {about:?} was there."), "lastUpdateTime": ago(since), "lastTransitionTime": ago(since)}]);
    }
    serde_json::from_value(object).unwrap()
}

/// A ReplicaSet from `name=SIZE/AVAILABLE` and words after commas: `rev=N`, `hist=N;N`, `desired=N`, `max=N`,
/// `age=SECONDS`, `deleting`, `minready=N`, `note=KEY:VALUE`, `pods=N` (status, if not the size), `unseen`, `failing`,
/// `terminating=N`, `uncounted`, `orphan`. Its template has its name as image, so `new` is the new one; `like=X`
/// changes that. Sets are older the earlier they stand in the list.
pub(super) fn set(text: &str, age: i64) -> ReplicaSet {
    let mut words = text.split(',');
    let (name, sizes) = words.next().and_then(|first| first.split_once('=')).unwrap();
    let (size, available) = sizes.split_once('/').unwrap_or((sizes, "0"));
    let (size, available): (i32, i32) = (size.parse().unwrap(), available.parse().unwrap());
    let mut object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "generation": 1, "creationTimestamp": ago(age), "labels": {"app": "web", "pod-template-hash": name},
            "annotations": {},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web",
                "controller": true}]},
        "spec": {"replicas": size, "selector": {"matchLabels": {"app": "web", "pod-template-hash": name}},
            "template": template(name, Some(name))},
        "status": {"replicas": size, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1, "terminatingReplicas": 0},
    });
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<i64>().unwrap();
        match word {
            "rev" => object["metadata"]["annotations"][REVISION] = json!(value),
            "hist" => object["metadata"]["annotations"][REVISION_HISTORY] = json!(value.replace(';', ",")),
            "desired" => object["metadata"]["annotations"][DESIRED_REPLICAS] = json!(value),
            "max" => object["metadata"]["annotations"][MAX_REPLICAS] = json!(value),
            "age" => object["metadata"]["creationTimestamp"] = json!(ago(number())),
            "deleting" => object["metadata"]["deletionTimestamp"] = json!(ago(1)),
            "minready" => object["spec"]["minReadySeconds"] = json!(number()),
            "note" => {
                let (key, value) = value.split_once(':').unwrap();
                object["metadata"]["annotations"][key] = json!(value);
            }
            "pods" => object["status"]["replicas"] = json!(number()),
            "unseen" => object["metadata"]["generation"] = json!(2),
            "failing" => {
                object["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True",
                    "reason": "FailedCreate", "message": format!("{name} fails"), "lastTransitionTime": ago(9)}]);
            }
            "terminating" => object["status"]["terminatingReplicas"] = json!(number()),
            "uncounted" => object["status"]["terminatingReplicas"] = Value::Null,
            "orphan" => object["metadata"]["ownerReferences"] = json!([]),
            "like" => object["spec"]["template"] = template(value, Some(name)),
            other => panic!("unknown word {other}"),
        }
    }
    serde_json::from_value(object).unwrap()
}

pub(super) fn sets(text: &str) -> Vec<Arc<ReplicaSet>> {
    let list: Vec<_> = text.split_whitespace().collect();
    let aged = list.iter().enumerate().map(|(n, text)| set(text, 100 - i64::try_from(n).unwrap()));
    aged.map(Arc::new).collect()
}

/// A pod of a set: `set:phase`.
pub(super) fn pod(text: &str) -> Arc<Pod> {
    let (set, phase) = text.split_once(':').unwrap();
    let pod = json!({
        "metadata": {"name": format!("{set}-x"), "namespace": "ns", "uid": format!("uid-{set}-x"),
            "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set,
                "uid": format!("uid-{set}"), "controller": true}]},
        "status": {"phase": phase},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// Everything that a view borrows.
pub(super) struct World {
    pub(super) deployment: Deployment,
    pub(super) sets: Vec<Arc<ReplicaSet>>,
    pub(super) pods: Vec<Arc<Pod>>,
}

impl World {
    pub(super) fn new(deployment_text: &str, sets_text: &str) -> Self {
        Self { deployment: deployment(deployment_text), sets: sets(sets_text), pods: vec![] }
    }

    pub(super) fn with_pods(mut self, text: &str) -> Self {
        self.pods = text.split_whitespace().map(pod).collect();
        self
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            deployment: &self.deployment,
            limits: Limits::of(&self.deployment.spec).unwrap(),
            sets: &self.sets,
            pods: &self.pods,
            counts_terminating: true,
            now: now(),
        }
    }

    /// The decision as text; it must keep the invariants.
    pub(super) fn planned(&self) -> String {
        let view = self.view();
        let decision = decide(&view);
        invariants::check(&view, &decision).unwrap();
        shown(&decision)
    }
}

/// A decision as text: `create N`, `revise SET to N`, `SET FROM>TO`, `note SET`, `delete SET`, `back to SET`, ….
fn shown(decision: &Decision<'_>) -> String {
    let words = decision.actions.iter().map(|action| match action {
        Action::Create(new) => format!("create {}", new.replicas),
        Action::Revise { set, annotations, .. } => {
            format!("revise {} to {}", set.metadata.name, annotations.get(REVISION).unwrap_or("nothing"))
        }
        Action::Scale { set, from, to } if from == to => format!("note {}", set.metadata.name),
        Action::Scale { set, from, to } => format!("{} {from}>{to}", set.metadata.name),
        Action::Delete { set } => format!("delete {}", set.metadata.name),
        Action::RollBack(Rollback::To { set, revision }) => {
            format!("back to {} of revision {revision}", set.metadata.name)
        }
        Action::RollBack(answer) => format!("{answer:?}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
