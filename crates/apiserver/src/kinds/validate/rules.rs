//! The rules of webhooks and policies: which operations on which resources they are about.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;

/// A rule of a policy, which may name objects.
pub(super) fn with_names(faults: &mut Faults, rule: &At<'_>) {
    let mut seen = BTreeSet::new();
    for name in rule.items("resourceNames") {
        let text = name.value.as_str().unwrap_or_default();
        name.must_be(faults, "", names::path_segment);
        if !seen.insert(text) {
            faults.push(Cause::duplicate(name.path.clone(), text));
        }
    }
    check(faults, rule);
}

/// A rule of a webhook.
pub(super) fn check(faults: &mut Faults, rule: &At<'_>) {
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    rule.require(faults, "operations");
    alone(faults, rule, "operations", "operations");
    for operation in rule.items("operations") {
        operation.one_of(faults, "", &known);
    }
    rule.require(faults, "apiGroups");
    alone(faults, rule, "apiGroups", "API groups");
    rule.require(faults, "apiVersions");
    alone(faults, rule, "apiVersions", "API versions");
    for version in rule.items("apiVersions") {
        version.require(faults, "");
    }
    resources(faults, rule);
    rule.one_of(faults, "scope", &["*", "Cluster", "Namespaced"]);
}

/// `*` includes everything else.
fn alone(faults: &mut Faults, rule: &At<'_>, field: &str, what: &str) {
    let list = rule.value.items(field);
    if list.len() > 1 && list.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        faults.push(rule.child(field).invalid(&detail));
    }
}

fn resources(faults: &mut Faults, rule: &At<'_>) {
    rule.require(faults, "resources");
    let (mut all_of, mut on_all) = (BTreeSet::new(), BTreeSet::new());
    let mut has_plain = false;
    for resource in rule.items("resources") {
        let text = resource.value.as_str().unwrap_or_default();
        let Some((main, sub)) = text.split_once('/') else {
            has_plain = !text.is_empty() && text != "*" || has_plain && text.is_empty();
            resource.require(faults, "");
            continue;
        };
        if all_of.contains(main) {
            faults.push(resource.invalid(&format!("if '{main}/*' is present, must not specify {text}")));
        }
        if on_all.contains(sub) {
            faults.push(resource.invalid(&format!("if '*/{sub}' is present, must not specify {text}")));
        }
        if sub == "*" {
            all_of.insert(main);
        }
        if main == "*" {
            on_all.insert(sub);
        }
    }
    let list = rule.value.items("resources");
    let has = |wanted: &str| list.iter().filter_map(Value::as_str).any(|text| text == wanted);
    if list.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        faults.push(rule.child("resources").invalid(detail));
    }
    if has("*") && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        faults.push(rule.child("resources").invalid(detail));
    }
}
