//! The objects that upstream's server creates in every cluster: roles, bindings and priority classes. The table
//! (`bootstrap.txt`) has one line per role or binding, and one indented line per rule:
//!
//! ```text
//! clusterrole NAME [to=ROLE …] [from=ROLE …]     to: is aggregated to; from: is the aggregation of
//!     VERBS   GROUPS  RESOURCES   [NAMES]        `core` is the group without a name
//!     VERBS   /PATHS
//! role NAMESPACE/NAME
//! clusterbinding NAME ROLE SUBJECTS…
//! binding NAMESPACE/NAME ROLE SUBJECTS…
//! ```
//!
//! Every `system:controller:X` is bound to the service account X of `kube-system`; these bindings are not listed.
//! A role with `gate=NAME`, or a rule that begins with such a column, exists only if that gate is enabled.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::json::Json;

const TABLE: &str = include_str!("bootstrap.txt");
const RBAC: &str = "rbac.authorization.k8s.io";
const CONTROLLER: &str = "system:controller:";
const GATE: &str = "gate=";

/// Objects that every cluster has from the start: RBAC roles and bindings, priority classes.
pub fn bootstrap(gates: &BTreeSet<String>) -> Vec<Value> {
    let is_shut = |mark: &str| mark.strip_prefix(GATE).is_some_and(|gate| !gates.contains(gate));
    let mut objects = priority_classes();
    let mut rules: Vec<Value> = Vec::new();
    // From the last line to the first, so that the rules of a role are read before its name.
    for line in TABLE.lines().rev() {
        match line.strip_prefix('\t') {
            Some(columns) => match columns.split_once('\t') {
                Some((mark, _)) if is_shut(mark) => {}
                Some((mark, open)) if mark.starts_with(GATE) => rules.insert(0, rule(open)),
                _ => rules.insert(0, rule(columns)),
            },
            None => {
                let words: Vec<&str> = line.split(' ').collect();
                let rules = std::mem::take(&mut rules);
                if !words.iter().any(|word| is_shut(word)) {
                    objects.extend(object(&words, rules));
                }
            }
        }
    }
    objects
}

fn object(words: &[&str], rules: Vec<Value>) -> Vec<Value> {
    match words {
        ["clusterrole", name, labels @ ..] => {
            let mut role = head("ClusterRole", name);
            aggregate(&mut role, labels);
            role.put("rules", if rules.is_empty() { Value::Null } else { Value::Array(rules) });
            let mut made = vec![role];
            if let Some(account) = name.strip_prefix(CONTROLLER) {
                let subject = format!("sa:kube-system/{account}");
                made.push(binding("ClusterRoleBinding", name, &format!("ClusterRole/{name}"), &[&subject]));
            }
            made
        }
        ["role", name] => {
            let mut role = head("Role", name);
            role.put("rules", rules);
            vec![role]
        }
        ["clusterbinding", name, role, subjects @ ..] => {
            vec![binding("ClusterRoleBinding", name, role, subjects)]
        }
        ["binding", name, role, subjects @ ..] => vec![binding("RoleBinding", name, role, subjects)],
        _ => Vec::new(),
    }
}

fn head(kind: &str, name: &str) -> Value {
    let mut metadata = json!({
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    match name.split_once('/') {
        Some((namespace, name)) => {
            metadata.put("namespace", namespace);
            metadata.put("name", name);
        }
        None => metadata.put("name", name),
    }
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata})
}

fn aggregate(role: &mut Value, labels: &[&str]) {
    let label = |target: &str| format!("rbac.authorization.k8s.io/aggregate-to-{target}");
    let mut selectors = Vec::new();
    for word in labels {
        match word.split_once('=') {
            Some(("to", target)) => role.put_entry("metadata.labels", &label(target), "true"),
            Some(("from", target)) => selectors.push(json!({"matchLabels": {label(target): "true"}})),
            _ => {}
        }
    }
    if !selectors.is_empty() {
        role.put("aggregationRule", json!({"clusterRoleSelectors": selectors}));
    }
}

fn rule(columns: &str) -> Value {
    let lists: Vec<Vec<&str>> = columns.split('\t').map(|list| list.split(',').collect()).collect();
    match &lists[..] {
        [verbs, paths] => json!({"verbs": verbs, "nonResourceURLs": paths}),
        [verbs, groups, resources, names @ ..] => {
            let groups: Vec<&str> =
                groups.iter().map(|group| if *group == "core" { "" } else { group }).collect();
            let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
            if let [names] = names {
                rule.put("resourceNames", json!(names));
            }
            rule
        }
        _ => Value::Null,
    }
}

fn binding(kind: &str, name: &str, role: &str, subjects: &[&str]) -> Value {
    let (role_kind, role_name) = role.split_once('/').unwrap_or(("ClusterRole", role));
    let mut binding = head(kind, name);
    binding.put("roleRef", json!({"apiGroup": RBAC, "kind": role_kind, "name": role_name}));
    let subjects: Vec<Value> = subjects.iter().filter_map(|subject| self::subject(subject)).collect();
    if !subjects.is_empty() {
        binding.put("subjects", subjects);
    }
    binding
}

fn subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once(':')?;
    Some(match kind {
        "user" => json!({"kind": "User", "apiGroup": RBAC, "name": name}),
        "group" => json!({"kind": "Group", "apiGroup": RBAC, "name": name}),
        _ => {
            let (namespace, name) = name.split_once('/')?;
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
    })
}

fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
            "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    vec![
        class(
            "system-cluster-critical",
            2_000_000_000,
            "For pods that the cluster needs, on whichever node.",
        ),
        class("system-node-critical", 2_000_001_000, "For pods that their node needs, on that very node."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
        let wanted = |o: &&Value| o["kind"] == kind && o["metadata"]["name"] == name;
        objects.iter().find(wanted).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    /// The gates in the table.
    fn gates() -> BTreeSet<String> {
        let words = TABLE.lines().flat_map(|line| line.split([' ', '\t']));
        words.filter_map(|word| word.strip_prefix(GATE)).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_behind_a_shut_gate_is_not_there() {
        let rules = |gates: &BTreeSet<String>, role: &str| {
            let objects = bootstrap(gates);
            let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == role);
            role.map(|role| role.items("rules").len())
        };
        let (none, all) = (BTreeSet::new(), gates());
        let (cleaner, taints) = (
            "system:controller:podcertificaterequestcleaner",
            "system:controller:device-taint-eviction-controller",
        );
        assert_eq!((rules(&none, cleaner), rules(&all, cleaner)), (None, Some(1)));
        assert_eq!((rules(&none, taints), rules(&all, taints)), (Some(6), Some(8)));
    }

    #[test]
    fn every_line_becomes_an_object_or_a_rule() {
        let objects = bootstrap(&gates());
        let heads = TABLE.lines().filter(|line| !line.starts_with('\t')).count();
        let controllers =
            TABLE.lines().filter(|line| line.starts_with("clusterrole system:controller:")).count();
        assert_eq!(objects.len(), heads + controllers + priority_classes().len());
        let rules: usize = objects.iter().map(|object| object.items("rules").len()).sum();
        assert_eq!(rules, TABLE.lines().filter(|line| line.starts_with('\t')).count());
        assert!(
            objects.iter().all(|o| o["rules"].as_array().is_none_or(|rules| !rules.contains(&Value::Null)))
        );
    }

    #[test]
    fn roles_and_bindings_say_what_the_table_says() {
        let objects = bootstrap(&BTreeSet::new());
        let admin = find(&objects, "ClusterRole", "cluster-admin");
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        assert_eq!(admin["rules"], all);
        let edit = find(&objects, "ClusterRole", "edit");
        assert_eq!(edit["rules"], Value::Null);
        assert_eq!(
            edit.entry("metadata.labels", "rbac.authorization.k8s.io/aggregate-to-admin"),
            Some("true")
        );
        let from = json!([{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]);
        assert_eq!(edit["aggregationRule"]["clusterRoleSelectors"], from);
        let bound = find(&objects, "ClusterRoleBinding", "system:controller:job-controller");
        let account =
            json!([{"kind": "ServiceAccount", "namespace": "kube-system", "name": "job-controller"}]);
        assert_eq!(bound["subjects"], account);
        let locking = find(&objects, "RoleBinding", "system::leader-locking-kube-scheduler");
        assert_eq!(locking["metadata"]["namespace"], "kube-system");
        assert_eq!(locking["subjects"].as_array().map(Vec::len), Some(2));
    }
}
