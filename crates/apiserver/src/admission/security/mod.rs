//! PodSecurity: labels of namespaces say what their pods may do. Pods that violate the enforced level are refused; for the
//! warning level there are warnings, for templates as well.

mod checks;
mod policy;

use serde_json::Value;

use super::{Operation, Request, forbid};
use crate::error::ApiError;
use crate::kinds::Json as _;
use crate::life::Ops;
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};
use checks::{Pod, Violation, violations};
use policy::{Level, Policy, Standard};

/// At most this many pods are checked when a namespace becomes stricter; upstream's number.
const PODS_CHECKED: usize = 3000;

/// Where the kinds that create pods have their templates.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "template"),
    ("", "replicationcontrollers", "spec.template"),
    ("apps", "daemonsets", "spec.template"),
    ("apps", "deployments", "spec.template"),
    ("apps", "replicasets", "spec.template"),
    ("apps", "statefulsets", "spec.template"),
    ("batch", "cronjobs", "spec.jobTemplate.spec.template"),
    ("batch", "jobs", "spec.template"),
];

/// Refuses pods that their namespace does not allow, and invalid labels.
pub(super) fn check(
    ops: &mut Ops<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    match (request.group, request.plural) {
        ("", "namespaces") if request.sub.is_none() => check_namespace(ops, new, old),
        ("", "pods") => {
            let changes_containers =
                matches!(request.sub, None | Some(Subresource::EphemeralContainers | Subresource::Resize));
            let significant =
                request.operation == Operation::Create || old.is_some_and(|old| changes_images(new, old));
            if changes_containers && significant { check_pod(ops, new) } else { Ok(()) }
        }
        (group, plural) if request.sub.is_none() => {
            let template = TEMPLATES.iter().find(|(g, p, _)| (*g, *p) == (group, plural));
            if let Some((_, _, path)) = template {
                check_template(ops, new, path);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn policy_of(ops: &Ops<'_>, object: &Value) -> Option<Policy> {
    let key = Key::new("", meta::text(object, "namespace"));
    let namespace = ops.server.store.get(&ShelfId::new("", "namespaces"), &key)?;
    let labels = namespace.facets.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Some(Policy::read(labels).0)
}

fn check_pod(ops: &mut Ops<'_>, pod: &Value) -> Result<(), ApiError> {
    let Some(policy) = policy_of(ops, pod) else { return Ok(()) };
    let seen = Pod::of(pod);
    let refused = violations(&seen, policy.enforce);
    if !refused.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&refused));
        return Err(forbid(ops, pod, &why));
    }
    warn(ops, &seen, policy.warn);
    Ok(())
}

/// Templates are never refused: their pods will be.
fn check_template(ops: &mut Ops<'_>, object: &Value, path: &str) {
    let template = object.at(path);
    if let Some(policy) = policy_of(ops, object)
        && template.is_object()
    {
        warn(ops, &Pod::of(template), policy.warn);
    }
}

fn warn(ops: &mut Ops<'_>, pod: &Pod<'_>, standard: Standard) {
    let found = violations(pod, standard);
    if !found.is_empty() {
        ops.notes.warn([format!("would violate PodSecurity \"{standard}\": {}", details(&found))]);
    }
}

fn details(violations: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Of an update, only changed images and added containers matter here.
fn changes_images(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<String> {
        pod["spec"].items(list).iter().map(|container| container.text("image").to_owned()).collect()
    };
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .any(|list| images(new, list) != images(old, list))
}

fn check_namespace(ops: &mut Ops<'_>, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let read = |namespace: &Value| {
        let labels = namespace["metadata"]["labels"].as_object().into_iter().flatten();
        Policy::read(labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())))
    };
    let (policy, faults) = read(new);
    let (before, known_faults) = old.map_or_else(Default::default, read);
    let name = meta::text(new, "name");
    if !faults.is_empty() && faults != known_faults {
        return Err(ApiError::invalid(ops.resource.kind_named(name), &faults));
    }
    let enforce = policy.enforce;
    let relaxed = enforce.version == before.enforce.version && enforce.level <= before.enforce.level;
    if old.is_some() && enforce != before.enforce && enforce.level != Level::Privileged && !relaxed {
        let warnings = existing(ops, name, enforce);
        ops.notes.warn(warnings);
    }
    Ok(())
}

/// Violations of existing pods when a namespace becomes stricter: equal ones in one line, with the first pod's name.
fn existing(ops: &Ops<'_>, namespace: &str, standard: Standard) -> Vec<String> {
    let pods = ops.server.store.all(&ShelfId::new("", "pods"), Some(namespace));
    let mut alike: Vec<(String, &str, usize)> = Vec::new();
    for entry in pods.iter().take(PODS_CHECKED) {
        let pod = entry.value();
        let reasons: Vec<&str> =
            violations(&Pod::of(&pod), standard).into_iter().map(|violation| violation.reason).collect();
        let reasons = reasons.join(", ");
        match alike.iter_mut().find(|(known, ..)| *known == reasons) {
            _ if reasons.is_empty() => {}
            Some((_, _, count)) => *count += 1,
            None => alike.push((reasons, &entry.key.name, 1)),
        }
    }
    let mut lines: Vec<String> = alike
        .iter()
        .map(|(reasons, first, count)| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            more => format!("{first} (and {} other pods): {reasons}", more - 1),
        })
        .collect();
    lines.sort();
    let mut warnings = Vec::new();
    if pods.len() > PODS_CHECKED {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_CHECKED} of {} existing pods",
            pods.len()
        ));
    }
    if !lines.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    warnings.extend(lines);
    warnings
}
