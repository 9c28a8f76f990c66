//! Who made a change: one of the components that a replay runs itself, or someone else, whose change must be played.
//!
//! A watch event is one commit. The server keeps, for each writer, which fields it has set and when it last did: whose entry has
//! changed was the writer. Deletions leave no such trace, so they are judged by the object.

use flyball_client::Propagation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;

use crate::merge;

/// The user agents of what runs in a replay, too.
const COMPONENTS: [&str; 8] = [
    "kube-controller-manager",
    "cloud-controller-manager",
    "kube-scheduler",
    "default-scheduler",
    "kubelet",
    "kube-apiserver",
    // Of the playground.
    "disks",
    "flyball-expose",
];
/// What components delete that has no owner.
const THEIR_OWN: [&str; 5] = ["endpoints", "ipaddresses", "volumeattachments", "events", "leases"];
/// Metadata that only the server writes.
const OF_SERVER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// A writer, as managedFields name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    pub manager: SmolStr,
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub subresource: SmolStr,
}

impl Author {
    fn of(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().into();
        Self { manager: text("manager"), subresource: text("subresource") }
    }

    fn is_component(&self) -> bool {
        COMPONENTS.contains(&self.manager.as_str())
    }
}

/// Whose entries show that they made this change: `patch` is what has changed.
pub fn authors(old: &Value, new: &Value, patch: &Value) -> Vec<Author> {
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (old, new) = (entries(old), entries(new));
    let before = |entry: &Value| {
        let is_same = |field: &str, other: &Value| other[field] == entry[field];
        old.iter().find(|other| {
            ["manager", "operation", "subresource", "apiVersion"].iter().all(|field| is_same(field, other))
        })
    };
    let changed_in = |fields: &[&str]| -> Vec<&Value> {
        let has_changed = |entry: &&Value| {
            before(entry).is_none_or(|before| fields.iter().any(|field| before[*field] != entry[*field]))
        };
        new.iter().filter(has_changed).collect()
    };
    let mut found = changed_in(&["time"]);
    if found.is_empty() {
        // Twice within a second.
        found = changed_in(&["fieldsV1"]);
    }
    let owns = |entry: &&Value| owns(&entry["fieldsV1"], patch);
    let found: Vec<&Value> = match found.len() {
        1 => found,
        // The same fields within a second.
        0 if new.iter().any(|entry| owns(&entry)) => new.iter().filter(owns).collect(),
        // Who removes a field leaves no trace; it was most likely its owner.
        0 => old.iter().filter(owns).collect(),
        // An entry shrank because another writer took its fields.
        _ if found.iter().any(&owns) => found.into_iter().filter(owns).collect(),
        _ => found,
    };
    let mut authors: Vec<Author> = found.into_iter().map(Author::of).collect();
    authors.dedup();
    authors
}

/// Whether an entry owns a field that a patch changes. Metadata of the server is nobody's.
fn owns(fields: &Value, patch: &Value) -> bool {
    let Some(patch) = patch.as_object() else { return true };
    patch.iter().any(|(name, patch)| {
        let owned = &fields[format!("f:{name}").as_str()];
        match owned.as_object() {
            None => false,
            Some(inner) if inner.is_empty() => true,
            // The items of a list are not told apart.
            Some(_) => !patch.is_object() || owns(owned, patch),
        }
    })
}

/// What a change was made for, as far as a replay is concerned.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// Our components do it by themselves, or it has no effect.
    Component,
    Create,
    /// With this merge patch.
    Patch(Value),
    Delete {
        propagation: Option<Propagation>,
        grace_period: Option<i64>,
    },
}

/// Whose changes are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Scaling by the autoscaler is played: its metrics are not recorded, so it does not run.
    pub plays_scaling: bool,
}

impl Rules {
    fn is_foreign(self, by: &[Author]) -> bool {
        by.iter().any(|author| {
            !author.is_component()
                || (self.plays_scaling
                    && author.manager == "kube-controller-manager"
                    && author.subresource == "scale")
        })
    }

    /// A new object. Nodes join by themselves in a real cluster, but not in a replay.
    pub fn added(self, plural: &str, by: &[Author]) -> Origin {
        match plural == "nodes" || self.is_foreign(by) {
            true => Origin::Create,
            false => Origin::Component,
        }
    }

    pub fn modified(
        self,
        plural: &str,
        old: &Value,
        new: &Value,
        by: &[Author],
        world: &impl World,
    ) -> Origin {
        let begins_deletion =
            old["metadata"]["deletionTimestamp"].is_null() && !new["metadata"]["deletionTimestamp"].is_null();
        if begins_deletion {
            return self.deletion(plural, new, world);
        }
        if !self.is_foreign(by) {
            return Origin::Component;
        }
        let patch = merge::diff(&desired(plural, old), &desired(plural, new));
        patch.map_or(Origin::Component, Origin::Patch)
    }

    /// An object is gone. `last` is its last state.
    pub fn deleted(self, plural: &str, last: &Value, world: &impl World) -> Origin {
        // With a time its deletion was requested before.
        match last["metadata"]["deletionTimestamp"].is_null() {
            true => self.deletion(plural, last, world),
            false => Origin::Component,
        }
    }

    fn deletion(self, plural: &str, object: &Value, world: &impl World) -> Origin {
        let metadata = &object["metadata"];
        let is_owned = metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let is_foreign = match disruption(object) {
            Some("EvictionByEvictionAPI") => true,
            Some(_) => false,
            None => !is_owned && !THEIR_OWN.contains(&plural) && !world.is_terminating(namespace),
        };
        if !is_foreign {
            return Origin::Component;
        }
        let finalizers = metadata["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        let propagation = match () {
            () if has("foregroundDeletion") => Some(Propagation::Foreground),
            () if has("orphan") => Some(Propagation::Orphan),
            () => None,
        };
        Origin::Delete { propagation, grace_period: metadata["deletionGracePeriodSeconds"].as_i64() }
    }
}

/// What is known of the rest of the cluster.
pub trait World {
    /// Whether a namespace is being deleted, and everything in it with it.
    fn is_terminating(&self, namespace: &str) -> bool;
}

/// Why a pod is disrupted, if it is.
fn disruption(object: &Value) -> Option<&str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found =
        conditions.iter().find(|found| found["type"] == "DisruptionTarget" && found["status"] == "True")?;
    found["reason"].as_str()
}

/// What people write of an object: everything but its status, and what the server adds. The node of a pod is the scheduler's.
pub fn desired(plural: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !OF_SERVER.contains(&name.as_str()));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && plural == "pods"
    {
        spec.remove("nodeName");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Only(&'static str);

    impl World for Only {
        fn is_terminating(&self, namespace: &str) -> bool {
            namespace == self.0
        }
    }

    /// `manager[/subresource]@second:field` for each entry.
    fn managers(text: &str) -> Value {
        let entry = |word: &str| {
            let (who, rest) = word.split_once('@').unwrap();
            let (manager, subresource) = who.split_once('/').unwrap_or((who, ""));
            let (second, fields) = rest.split_once(':').unwrap();
            let fields: serde_json::Map<String, Value> =
                fields.split('+').map(|field| (format!("f:{field}"), json!({}))).collect();
            let mut entry = json!({"manager": manager, "operation": "Update", "time": second,
                                   "fieldsV1": {"f:spec": fields}});
            if !subresource.is_empty() {
                entry["subresource"] = json!(subresource);
            }
            entry
        };
        Value::Array(text.split_whitespace().map(entry).collect())
    }

    #[test]
    fn the_writer_is_the_one_whose_entry_has_changed() {
        #[rustfmt::skip]
        let table = [
            // case                                old                     new                         patched  want
            ("a new object",                       "",                     "kubectl@1:a",              "a",     "kubectl"),
            ("a later time",                       "kubectl@1:a kcm@1:b",  "kubectl@2:a kcm@1:b",      "a",     "kubectl"),
            ("another field in the same second",   "kubectl@1:a kcm@1:b",  "kubectl@1:a kcm@1:b+c",    "c",     "kcm"),
            ("the same field in the same second",  "kubectl@1:a kcm@1:b",  "kubectl@1:a kcm@1:b",      "a",     "kubectl"),
            ("fields are taken over",              "kubectl@1:a+b",        "kubectl@1:b hpa/scale@1:a","a",     "hpa/scale"),
            ("its only field is removed",          "kubectl@1:a kcm@1:b",  "kcm@1:b",                  "a",     "kubectl"),
            ("a field that nobody owns",           "kubectl@1:a",          "kubectl@1:a",              "z",     ""),
            ("a subresource",                      "kcm@1:a",              "kcm@1:a kcm/scale@2:b",    "b",     "kcm/scale"),
        ];
        for (case, old, new, patched, want) in table {
            let patch = json!({"spec": {patched: 1}});
            let found = authors(&managers(old), &managers(new), &patch);
            let shown: Vec<String> = found
                .iter()
                .map(|author| match author.subresource.is_empty() {
                    true => author.manager.to_string(),
                    false => format!("{}/{}", author.manager, author.subresource),
                })
                .collect();
            assert_eq!(shown.join(" "), want, "{case}");
        }
    }

    fn by(text: &str) -> Vec<Author> {
        let author = |word: &str| {
            let (manager, subresource) = word.split_once('/').unwrap_or((word, ""));
            Author { manager: manager.into(), subresource: subresource.into() }
        };
        text.split_whitespace().map(author).collect()
    }

    #[test]
    fn only_what_others_than_components_want_is_played() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"replicas": 2}, "status": {"replicas": 2}});
        let status_only =
            json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}, "status": {"replicas": 9}});
        let patch = || Origin::Patch(json!({"spec": {"replicas": 2}}));
        #[rustfmt::skip]
        let table = [
            // by                              scaling  new           want
            ("kubectl",                        false,   &new,         patch()),
            ("kubectl/scale",                  false,   &new,         patch()),
            ("argocd-application-controller",  false,   &new,         patch()),
            ("kube-controller-manager",        false,   &new,         Origin::Component),
            ("kube-controller-manager/scale",  false,   &new,         Origin::Component),
            ("kube-controller-manager/scale",  true,    &new,         patch()),
            ("kube-controller-manager",        true,    &new,         Origin::Component),
            ("",                               true,    &new,         Origin::Component),
            ("operator/status",                false,   &status_only, Origin::Component),
        ];
        for (who, plays_scaling, new, want) in table {
            let rules = Rules { plays_scaling };
            assert_eq!(rules.modified("deployments", &old, new, &by(who), &Only("")), want, "{who}");
        }
        let rules = Rules::default();
        assert_eq!(rules.added("pods", &by("kubelet")), Origin::Component);
        assert_eq!(rules.added("nodes", &by("kubelet")), Origin::Create);
        assert_eq!(rules.added("pods", &by("kubectl-run")), Origin::Create);
    }

    #[test]
    fn the_node_of_a_pod_is_the_schedulers() {
        let old = json!({"metadata": {"name": "a"}, "spec": {}});
        let new = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}});
        let rules = Rules::default();
        assert_eq!(rules.modified("pods", &old, &new, &by("kubectl-run"), &Only("")), Origin::Component);
    }

    #[test]
    fn a_deletion_is_played_if_no_component_has_a_reason_for_it() {
        let owner = json!([{"kind": "ReplicaSet", "name": "web", "controller": true}]);
        let because = |reason: &str| json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]});
        #[rustfmt::skip]
        let table = [
            // case                          plural        namespace  owners          status                                played
            ("of a user's object",           "deployments", "ns",     json!(null),   json!({}),                             true),
            ("of a pod of a controller",     "pods",        "ns",     owner.clone(), json!({}),                             false),
            ("an eviction by a user",        "pods",        "ns",     owner.clone(), because("EvictionByEvictionAPI"),      true),
            ("an eviction by a taint",       "pods",        "ns",     json!(null),   because("DeletionByTaintManager"),     false),
            ("of everything in a namespace", "deployments", "old",    json!(null),   json!({}),                             false),
            ("of what only components make", "endpoints",   "ns",     json!(null),   json!({}),                             false),
        ];
        for (case, plural, namespace, owners, status, played) in table {
            let object = json!({"metadata": {"name": "a", "namespace": namespace, "ownerReferences": owners}, "status": status});
            let origin = Rules::default().deleted(plural, &object, &Only("old"));
            assert_eq!(matches!(origin, Origin::Delete { .. }), played, "{case}");
            let mut deleting = object.clone();
            deleting["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:00:00Z");
            let begun = Rules::default().modified(plural, &object, &deleting, &[], &Only("old"));
            assert_eq!(begun, origin, "{case}: the same when it is only requested");
            assert_eq!(
                Rules::default().deleted(plural, &deleting, &Only("old")),
                Origin::Component,
                "{case}: once"
            );
        }
    }

    #[test]
    fn how_it_is_deleted_is_kept() {
        let object = |finalizer: &str| {
            json!({"metadata": {"name": "a", "deletionTimestamp": "2026-03-01T12:00:00Z", "deletionGracePeriodSeconds": 5,
                                "finalizers": [finalizer]}})
        };
        let before = json!({"metadata": {"name": "a"}});
        for (finalizer, want) in [
            ("foregroundDeletion", Some(Propagation::Foreground)),
            ("orphan", Some(Propagation::Orphan)),
            ("example.com/mine", None),
        ] {
            let origin = Rules::default().modified("jobs", &before, &object(finalizer), &[], &Only("ending"));
            assert_eq!(origin, Origin::Delete { propagation: want, grace_period: Some(5) }, "{finalizer}");
        }
    }
}
