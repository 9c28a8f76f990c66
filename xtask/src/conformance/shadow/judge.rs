//! Compares the decisions of a shadow with the writes of the controller manager that leads. Pure.

use std::collections::BTreeMap;

use flyball_sim::audit::Entry;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// Leader and shadow decide on the same change at different times, in either order.
pub(super) const WITHIN: SignedDuration = SignedDuration::from_mins(1);
/// What a shadow calls an object that it would have created with a generated name.
const GENERATED: &str = "shadow";

/// A decision, as `/debug/decisions` shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Decision {
    pub(super) id: u64,
    pub(super) time: Timestamp,
    pub(super) controller: String,
    pub(super) action: String,
    pub(super) target: Target,
    #[serde(default)]
    pub(super) subresource: String,
    #[serde(default)]
    pub(super) why: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Target {
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) name: String,
}

/// Writes of the leader, to be found by object.
#[derive(Default)]
pub(super) struct Writes {
    /// By resource, namespace and name. The audit log has no name for creations with a generated one.
    times: BTreeMap<(String, String, String), Vec<Timestamp>>,
    pub(super) count: usize,
}

impl Writes {
    pub(super) fn add(&mut self, entry: &Entry) {
        if !entry.by_manager() || !entry.is_write() {
            return;
        }
        let Some(at) = entry.received else { return };
        self.count += 1;
        let name = if entry.verb == "deletecollection" { "" } else { &entry.name };
        let key = (entry.resource.clone(), entry.namespace.clone(), name.to_owned());
        self.times.entry(key).or_default().push(at);
    }

    /// Whether the leader wrote the object within a minute of the decision.
    fn matches(&self, decision: &Decision, resource: &str) -> bool {
        let target = &decision.target;
        let written = |name: &str| {
            let key = (resource.to_owned(), target.namespace.clone(), name.to_owned());
            self.times.get(&key).is_some_and(|times| times.iter().any(|at| is_near(*at, decision.time)))
        };
        if written(&target.name) {
            return true;
        }
        let is_generated = decision.action == "create" && target.name.ends_with(GENERATED);
        let is_one_of_many = decision.action == "delete";
        (is_generated || is_one_of_many) && written("")
    }
}

fn is_near(a: Timestamp, b: Timestamp) -> bool {
    a.duration_since(b).abs() <= WITHIN
}

/// Decisions without a counterpart.
pub(super) fn findings<'a>(
    decisions: impl IntoIterator<Item = &'a Decision>,
    writes: &Writes,
    resource_of: impl Fn(&str) -> String,
) -> Vec<&'a Decision> {
    decisions
        .into_iter()
        .filter(|decision| !writes.matches(decision, &resource_of(&decision.target.kind)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(verb: &str, name: &str, user: &str, second: i64) -> Entry {
        Entry {
            verb: verb.to_owned(),
            stage: "ResponseComplete".to_owned(),
            user: user.to_owned(),
            resource: "pods".to_owned(),
            subresource: String::new(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            code: 200,
            is_forbidden: false,
            received: Some(Timestamp::from_second(second).unwrap()),
        }
    }

    fn decision(action: &str, name: &str, second: i64) -> Decision {
        serde_json::from_value(json!({
            "id": 1, "time": Timestamp::from_second(second).unwrap().to_string(), "controller": "job",
            "owner": "default/a", "action": action, "why": "", "outcome": "done", "took_ms": 1,
            "target": {"kind": "Pod", "namespace": "default", "name": name},
        }))
        .unwrap()
    }

    #[test]
    fn a_decision_needs_a_write_of_the_leader_to_the_same_object_within_a_minute() {
        const LEADER: &str = "system:serviceaccount:kube-system:job-controller";
        #[rustfmt::skip]
        let table = [
            // case                              write                              decision                       found
            ("the same object at once",          entry("patch",  "a", LEADER, 100), decision("patch",  "a", 100),          false),
            ("the leader was first",             entry("patch",  "a", LEADER, 100), decision("patch",  "a", 160),          false),
            ("the shadow was first",             entry("patch",  "a", LEADER, 160), decision("patch",  "a", 100),          false),
            ("too late",                         entry("patch",  "a", LEADER, 161), decision("patch",  "a", 100),          true),
            ("another object",                   entry("patch",  "b", LEADER, 100), decision("patch",  "a", 100),          true),
            ("someone else",                     entry("patch",  "a", "admin", 100), decision("patch", "a", 100),          true),
            ("a read is no write",               entry("get",    "a", LEADER, 100), decision("patch",  "a", 100),          true),
            ("a generated name",                 entry("create", "",  LEADER, 100), decision("create", "a-shadow", 100),   false),
            ("a name that was given",            entry("create", "",  LEADER, 100), decision("create", "a", 100),          true),
            ("all objects of a namespace",       entry("deletecollection", "", LEADER, 100), decision("delete", "a", 100), false),
        ];
        for (case, write, decision, found) in table {
            let mut writes = Writes::default();
            writes.add(&write);
            let findings = findings([&decision], &writes, |kind| format!("{}s", kind.to_lowercase()));
            assert_eq!(findings.len(), usize::from(found), "{case}");
        }
    }
}
