//! Roles and bindings.

use serde_json::Value;

use super::{At, Faults, go_struct, names, quoting, selector};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

pub(in crate::kinds) fn role(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    rules(&mut faults, object, true);
    faults
}

pub(in crate::kinds) fn cluster_role(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    rules(&mut faults, object, false);
    let aggregation = At::root(object).child("aggregationRule");
    if aggregation.value.is_object() {
        if aggregation.value.items("clusterRoleSelectors").is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            faults.push(Cause::required(aggregation.path("clusterRoleSelectors"), detail));
        }
        for selector in aggregation.items("clusterRoleSelectors") {
            selector::check(&mut faults, &selector);
        }
    }
    faults
}

fn rules(faults: &mut Faults, object: &Value, namespaced: bool) {
    for rule in At::root(object).items("rules") {
        let has = |field: &str| !rule.value.items(field).is_empty();
        if !has("verbs") {
            faults.push(Cause::required(rule.path("verbs"), "verbs must contain at least one value"));
        }
        if has("nonResourceURLs") {
            let urls = rule.child("nonResourceURLs");
            if namespaced {
                faults.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
            }
            if has("apiGroups") || has("resources") || has("resourceNames") {
                faults
                    .push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
            }
            continue;
        }
        if !has("apiGroups") {
            faults.push(Cause::required(
                rule.path("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if !has("resources") {
            faults.push(Cause::required(
                rule.path("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

pub(in crate::kinds) fn binding(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    let cluster = object.text("kind") == "ClusterRoleBinding";
    let reference = root.child("roleRef");
    reference.one_of(&mut faults, "apiGroup", &["rbac.authorization.k8s.io"]);
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    reference.one_of(&mut faults, "kind", kinds);
    reference.must_be_named(&mut faults, "name", names::path_segment);
    for subject in root.items("subjects") {
        self::subject(&mut faults, &subject, cluster);
    }
    if let Some(old) = old
        && old.at("roleRef") != object.at("roleRef")
    {
        let field = |name: &str| object.at("roleRef").at(name);
        let value =
            go_struct(&[("APIGroup", field("apiGroup")), ("Kind", field("kind")), ("Name", field("name"))]);
        faults.push(quoting(Fault::Invalid, "roleRef".to_owned(), &value, "cannot change roleRef"));
    }
    faults
}

fn subject(faults: &mut Faults, subject: &At<'_>, cluster: bool) {
    if subject.text("name").is_empty() {
        faults.push(Cause::required(subject.path("name"), ""));
    }
    let group = match subject.text("kind") {
        "ServiceAccount" => {
            if !subject.text("name").is_empty() {
                subject.must_be(faults, "name", names::subdomain);
            }
            if cluster && subject.text("namespace").is_empty() {
                faults.push(Cause::required(subject.path("namespace"), ""));
            }
            ""
        }
        "User" | "Group" => "rbac.authorization.k8s.io",
        other => {
            let allowed = ["ServiceAccount", "User", "Group"];
            faults.push(Cause::not_supported(subject.path("kind"), other, &allowed));
            return;
        }
    };
    let given = subject.text("apiGroup");
    if given != group {
        faults.push(Cause::not_supported(subject.path("apiGroup"), given, &[group]));
    }
}
