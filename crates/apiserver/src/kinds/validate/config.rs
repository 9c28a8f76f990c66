//! Config maps, secrets, limit ranges and quotas.

use std::cmp::Ordering;

use serde_json::Value;

use super::{At, Faults, config_key, names};
use crate::invalid::Cause;
use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;

const MAX_SIZE: usize = 1024 * 1024;

fn keys(faults: &mut Faults, object: &Value, field: &str) {
    for (key, entry) in At::root(object).entries(field) {
        faults.extend(config_key(key).iter().map(|detail| Cause::invalid(entry.path.clone(), key, detail)));
    }
}

fn size(map: &Value, base64: bool) -> usize {
    let bytes = |text: &str| if base64 { text.trim_end_matches('=').len() * 3 / 4 } else { text.len() };
    map.as_object().into_iter().flatten().map(|(_, value)| value.as_str().map_or(0, bytes)).sum()
}

/// An immutable object must stay immutable and unchanged.
fn immutable(faults: &mut Faults, new: &Value, old: &Value, fields: &[&str]) {
    if !old.flag("immutable") {
        return;
    }
    if !new.flag("immutable") {
        faults.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields.iter().filter(|field| new.at(field) != old.at(field)) {
        faults.push(Cause::forbidden(*field, "field is immutable when `immutable` is set"));
    }
}

pub(in crate::kinds) fn config_map(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    for (key, entry) in At::root(object).entries("data") {
        faults.extend(config_key(key).iter().map(|detail| Cause::invalid(entry.path.clone(), key, detail)));
        if object.entry("binaryData", key).is_some() {
            faults.push(Cause::invalid(entry.path.clone(), key, "duplicate of key present in binaryData"));
        }
    }
    keys(&mut faults, object, "binaryData");
    if size(object.at("data"), false) + size(object.at("binaryData"), true) > MAX_SIZE {
        faults.push(Cause::too_long("", MAX_SIZE));
    }
    if let Some(old) = old {
        immutable(&mut faults, object, old, &["data", "binaryData"]);
    }
    faults
}

pub(in crate::kinds) fn secret(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    keys(&mut faults, object, "data");
    if size(object.at("data"), true) > MAX_SIZE {
        faults.push(Cause::too_long("data", MAX_SIZE));
    }
    let has = |key: &str| object.entry("data", key).is_some();
    let mut need = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !has(key)) {
            faults.push(Cause::required(format!("data[{key}]"), ""));
        }
    };
    match object.text("type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if object.entry("metadata.annotations", name).unwrap_or("").is_empty() {
                faults.push(Cause::required(format!("metadata.annotations[{name}]"), ""));
            }
        }
        "kubernetes.io/dockerconfigjson" => need(&[".dockerconfigjson"]),
        "kubernetes.io/dockercfg" => need(&[".dockercfg"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => need(&["username", "password"]),
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        _ => {}
    }
    faults
}

pub(in crate::kinds) fn secret_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    At::root(new).immutable(&mut faults, old, "type");
    immutable(&mut faults, new, old, &["data"]);
    faults.extend(secret(new));
    faults
}

pub(in crate::kinds) fn limit_range(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for limit in At::root(object).child("spec").items("limits") {
        let kind = limit.text("type");
        limit.must_be(&mut faults, "type", names::qualified_name);
        if seen.contains(&kind) {
            faults.push(Cause::duplicate(limit.path("type"), kind));
        }
        seen.push(kind);
        if kind == "Pod" {
            for field in ["default", "defaultRequest"].into_iter().filter(|field| limit.has(field)) {
                faults.push(Cause::forbidden(limit.path(field), "may not be specified when `type` is 'Pod'"));
            }
        }
        limit_bounds(&mut faults, &limit);
    }
    faults
}

/// Minimum, request, limit and maximum must be in this order.
fn limit_bounds(faults: &mut Faults, limit: &At<'_>) {
    let amount = |field: &str, name: &str| {
        let text = limit.value.entry(field, name)?;
        Some((text, Quantity::parse(text)?))
    };
    let mut names: Vec<&str> = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
        .iter()
        .flat_map(|field| limit.value.map(field).into_iter().flatten().map(|(name, _)| name.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let rules = [
            ("min", "min", "max", "min value", "max value"),
            ("defaultRequest", "min", "defaultRequest", "min value", "default request value"),
            ("defaultRequest", "defaultRequest", "max", "default request value", "max value"),
            ("defaultRequest", "defaultRequest", "default", "default request value", "default limit value"),
            ("default", "min", "default", "min value", "default value"),
            ("default", "default", "max", "default value", "max value"),
        ];
        for (field, low, high, low_word, high_word) in rules {
            let (Some((low_text, low)), Some((high_text, high))) = (amount(low, name), amount(high, name))
            else {
                continue;
            };
            if low.compare(high) == Ordering::Greater {
                let detail = format!("{low_word} {low_text} is greater than {high_word} {high_text}");
                let value = if field == "defaultRequest" && high_word == "default request value" {
                    high_text
                } else {
                    low_text
                };
                faults.push(Cause::invalid(format!("{}[{name}]", limit.path(field)), value, &detail));
            }
        }
    }
}

const QUOTA_RESOURCES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

pub(in crate::kinds) fn resource_quota(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    for (name, amount) in spec.entries("hard") {
        let plain = name.strip_prefix("requests.").unwrap_or(name);
        let standard =
            QUOTA_RESOURCES.contains(&name) || plain.starts_with("hugepages-") || name.contains('/');
        if !standard {
            for detail in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for quota",
            ] {
                faults.push(Cause::invalid(amount.path.clone(), name, detail));
            }
        }
        if Quantity::parse(amount.text("")).is_some_and(|quantity| quantity.sign() == Ordering::Less) {
            faults.push(amount.invalid("must be greater than or equal to 0"));
        }
    }
    if spec.value.items("scopes").iter().any(|scope| !SCOPES.contains(&scope.as_str().unwrap_or(""))) {
        faults.push(spec.child("scopes").invalid("unsupported scope"));
    }
    if let Some(old) = old {
        At::root(object).immutable(&mut faults, old, "spec.scopes");
    }
    faults
}
