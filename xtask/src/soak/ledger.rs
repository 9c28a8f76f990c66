//! What should exist: every accepted request of a user is recorded here, and at the end the cluster must match.

use std::collections::{BTreeMap, HashMap, HashSet};

use parking_lot::Mutex;
use serde_json::Value;

/// The expected state of an object once the cluster is at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Gone,
    /// A Deployment or StatefulSet that has rolled out.
    Workload {
        /// `spec.replicas`.
        replicas: u64,
        /// The image of its last template.
        image: String,
    },
    /// A Job that is complete.
    Job {
        /// `spec.completions`.
        completions: u64,
    },
}

impl Wanted {
    /// How `found` differs, if it does.
    pub(super) fn missing(&self, found: Option<&Value>) -> Option<String> {
        let count = |object: &Value, field: &str| object["status"][field].as_u64().unwrap_or_default();
        match (self, found) {
            (Self::Gone, None) => None,
            (Self::Gone, Some(_)) => Some("is still there".to_owned()),
            (_, None) => Some("is lost".to_owned()),
            (Self::Workload { replicas, image }, Some(object)) => {
                let spec = &object["spec"];
                if spec["replicas"].as_u64() != Some(*replicas)
                    || spec["template"]["spec"]["containers"][0]["image"].as_str() != Some(image)
                {
                    return Some("differs from what its user requested".to_owned());
                }
                if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
                    return Some("has a status of an older generation".to_owned());
                }
                let fields = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
                let behind = fields.into_iter().find(|field| count(object, field) != *replicas)?;
                Some(format!("has {behind} {} of {replicas}", count(object, behind)))
            }
            (Self::Job { completions }, Some(object)) => {
                let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                if !conditions.any(|c| c["type"] == "Complete" && c["status"] == "True") {
                    return Some(format!("is not complete ({})", object["status"]));
                }
                let (succeeded, failed) = (count(object, "succeeded"), count(object, "failed"));
                (succeeded != *completions || failed != 0)
                    .then(|| format!("succeeded {succeeded} times of {completions}, failed {failed} times"))
            }
        }
    }
}

/// What users have requested so far, and the violations.
#[derive(Default)]
pub(super) struct Ledger {
    wanted: Mutex<BTreeMap<String, Wanted>>,
    /// The most live pods that an app may have, by namespace and label.
    most: Mutex<HashMap<(String, String), usize>>,
    violations: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, usize>>,
}

impl Ledger {
    /// Records that a user's request about the object at `path` was accepted.
    pub(super) fn want(&self, path: impl Into<String>, wanted: Wanted) {
        self.wanted.lock().insert(path.into(), wanted);
    }

    /// The expected objects, by path.
    pub(super) fn wanted(&self) -> BTreeMap<String, Wanted> {
        self.wanted.lock().clone()
    }

    /// Forgets the objects of a deleted namespace.
    pub(super) fn forget_namespace(&self, namespace: &str) {
        let within = format!("/namespaces/{namespace}/");
        self.wanted.lock().retain(|path, _| !path.contains(&within));
    }

    /// Sets the most live pods that the app may have. To be called before the request that raises it; the bound only grows, as
    /// pods of a larger size may still be terminating.
    pub(super) fn bound(&self, namespace: &str, app: &str, pods: usize) {
        let mut most = self.most.lock();
        let bound = most.entry((namespace.to_owned(), app.to_owned())).or_default();
        *bound = pods.max(*bound);
    }

    /// The most live pods that an app may have.
    pub(super) fn most(&self, namespace: &str, app: &str) -> Option<usize> {
        self.most.lock().get(&(namespace.to_owned(), app.to_owned())).copied()
    }

    /// Records a violation, which waiting does not repair. The same text is printed once.
    pub(super) fn violation(&self, what: String) {
        let mut violations = self.violations.lock();
        if !violations.contains(&what) {
            println!("  VIOLATION: {what}");
            violations.push(what);
        }
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// Counts something for the report.
    pub(super) fn count(&self, what: &'static str) {
        *self.counts.lock().entry(what).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.counts.lock().clone()
    }
}

/// Objects that should not exist any more: objects without their owners, objects that are stuck in deletion, pods
/// without an owner, attachments that no pod needs.
pub(super) fn left_behind(objects: &[Value]) -> Vec<String> {
    let uids: HashSet<&str> = objects.iter().filter_map(|o| o["metadata"]["uid"].as_str()).collect();
    let mut found: Vec<String> = objects
        .iter()
        .filter_map(|object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let is_orphan = owners.is_some_and(|owners| {
                !owners.iter().any(|owner| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)))
            });
            let why = if object["metadata"]["deletionTimestamp"].is_string() {
                "is being deleted for ever"
            } else if is_orphan {
                "has lost its owner and is still there"
            } else if object["kind"] == "Pod" && owners.is_none() {
                "has no owner"
            } else if holds_tracking_finalizer(object) {
                "is done and still has the Job's finalizer"
            } else {
                return None;
            };
            Some(format!("{} {why}", describe(object)))
        })
        .collect();
    found.extend(idle_attachments(objects));
    found
}

fn holds_tracking_finalizer(object: &Value) -> bool {
    let done = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let mut finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    object["kind"] == "Pod" && done && finalizers.any(|name| name == "batch.kubernetes.io/job-tracking")
}

/// Attachments of a volume to a node that has no pod with that volume.
fn idle_attachments(objects: &[Value]) -> Vec<String> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |o| o["kind"] == kind);
    let volume_of_claim: HashMap<(&Value, &Value), &Value> = of_kind("PersistentVolumeClaim")
        .map(|claim| {
            ((&claim["metadata"]["namespace"], &claim["metadata"]["name"]), &claim["spec"]["volumeName"])
        })
        .collect();
    let needed: HashSet<(&Value, &Value)> = of_kind("Pod")
        .flat_map(|pod| {
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let claims = volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
            let keys = claims.map(|claim| (&pod["metadata"]["namespace"], claim));
            keys.filter_map(|key| volume_of_claim.get(&key)).map(|volume| (&pod["spec"]["nodeName"], *volume))
        })
        .collect();
    of_kind("VolumeAttachment")
        .filter(|attachment| {
            let spec = &attachment["spec"];
            !needed.contains(&(&spec["nodeName"], &spec["source"]["persistentVolumeName"]))
        })
        .map(|attachment| format!("{} is needed by no pod", describe(attachment)))
        .collect()
}

/// Claims and volumes that do not refer to each other.
pub(super) fn torn_bindings(objects: &[Value]) -> Vec<String> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |o| o["kind"] == kind);
    let mut found = Vec::new();
    for claim in of_kind("PersistentVolumeClaim") {
        let volume =
            of_kind("PersistentVolume").find(|v| v["metadata"]["name"] == claim["spec"]["volumeName"]);
        match volume {
            Some(volume) if volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"] => {}
            Some(volume) => found.push(format!(
                "{} is bound to {}, which is another's",
                describe(claim),
                describe(volume)
            )),
            None => found.push(format!("{} has no volume", describe(claim))),
        }
    }
    found
}

fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{separator}{name}", text(&object["kind"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_missing_something_until_it_is_as_wanted() {
        let workload = |ready: u64, observed: u64| {
            json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 3, "template": {"spec": {"containers": [{"image": "main:2"}]}}},
                "status": {
                    "observedGeneration": observed, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready,
                    "availableReplicas": ready,
                },
            })
        };
        let job = |succeeded: u64, complete: &str| json!({"status": {"succeeded": succeeded, "conditions": [{"type": "Complete", "status": complete}]}});
        let three = || Wanted::Workload { replicas: 3, image: "main:2".to_owned() };
        let older = Wanted::Workload { replicas: 3, image: "main:1".to_owned() };
        let two = || Wanted::Job { completions: 2 };
        #[rustfmt::skip]
        let table = [
            ("gone",              Wanted::Gone, None,                   true),
            ("not gone",          Wanted::Gone, Some(json!({})),        false),
            ("lost",              three(),      None,                   false),
            ("rolled out",        three(),      Some(workload(3, 2)),   true),
            ("not ready",         three(),      Some(workload(2, 2)),   false),
            ("not observed",      three(),      Some(workload(3, 1)),   false),
            ("another template",  older,        Some(workload(3, 2)),   false),
            ("complete",          two(),        Some(job(2, "True")),   true),
            ("not complete",      two(),        Some(job(2, "False")),  false),
            ("once too often",    two(),        Some(job(3, "True")),   false),
        ];
        for (case, wanted, found, fits) in table {
            assert_eq!(wanted.missing(found.as_ref()).is_none(), fits, "{case}");
        }
    }

    #[test]
    fn what_nobody_needs_is_left_behind() {
        let owned = |kind: &str, name: &str, owner: &str| json!({"kind": kind, "metadata": {"name": name, "uid": name, "ownerReferences": [{"uid": owner}]}});
        let mut done = owned("Pod", "done", "job");
        done["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        done["status"]["phase"] = "Succeeded".into();
        let mut user = owned("Pod", "user", "job");
        user["spec"] =
            json!({"nodeName": "n1", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]});
        let attachment = |name: &str, node: &str| {
            json!({
                "kind": "VolumeAttachment", "metadata": {"name": name, "uid": name},
                "spec": {"nodeName": node, "source": {"persistentVolumeName": "disk"}},
            })
        };
        let objects = [
            json!({"kind": "Job", "metadata": {"name": "job", "uid": "job"}}),
            json!({"kind": "Pod", "metadata": {"name": "stray", "uid": "stray"}}),
            json!({"kind": "Service", "metadata": {"name": "stuck", "uid": "stuck", "deletionTimestamp": "now"}}),
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"volumeName": "disk"}}),
            owned("ReplicaSet", "orphan", "nobody"),
            owned("Pod", "fine", "job"),
            attachment("used", "n1"),
            attachment("idle", "n2"),
            done,
            user,
        ];
        assert_eq!(
            left_behind(&objects),
            [
                "Pod stray has no owner",
                "Service stuck is being deleted for ever",
                "ReplicaSet orphan has lost its owner and is still there",
                "Pod done is done and still has the Job's finalizer",
                "VolumeAttachment idle is needed by no pod",
            ]
        );
    }

    #[test]
    fn a_claim_and_its_volume_name_each_other() {
        let claim = |name: &str, volume: &str| json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "uid": name}, "spec": {"volumeName": volume}});
        let volume = json!({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"claimRef": {"uid": "a"}}});
        let torn = torn_bindings(&[claim("a", "v"), claim("b", "v"), claim("c", ""), volume]);
        assert_eq!(
            torn,
            [
                "PersistentVolumeClaim b is bound to PersistentVolume v, which is another's",
                "PersistentVolumeClaim c has no volume",
            ]
        );
    }
}
