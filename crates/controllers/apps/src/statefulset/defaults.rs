//! The defaults that an API server of this version sets in a template. A default belongs to a path, not to a field name:
//! the `restartPolicy` of a pod is `Always` by default, but an init container with `Always` is a sidecar. Pure.
//!
//! Upstream: `SetObjectDefaults_StatefulSet`, as far as it concerns the template. Defaults of pods only
//! (requests from limits, host ports, service links) are not included.

use serde_json::{Value, json};

/// Sets the defaults in a template.
pub fn complete(template: &mut Value) {
    fill(template, [("metadata", json!({})), ("spec", json!({}))]);
    let Some(spec) = template.get_mut("spec") else { return };
    fill(
        spec,
        [
            ("dnsPolicy", json!("ClusterFirst")),
            ("restartPolicy", json!("Always")),
            ("schedulerName", json!("default-scheduler")),
            ("securityContext", json!({})),
            ("terminationGracePeriodSeconds", json!(30)),
        ],
    );
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, list).for_each(complete_container);
    }
    items(spec, "volumes").for_each(complete_volume);
}

fn complete_container(container: &mut Value) {
    let policy = pull_policy(container.get("image"));
    fill(
        container,
        [
            ("imagePullPolicy", json!(policy)),
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ],
    );
    for port in items(container, "ports") {
        fill(port, [("protocol", json!("TCP"))]);
    }
    for variable in items(container, "env") {
        at(variable, &["valueFrom", "fieldRef"], complete_field_reference);
        at(variable, &["valueFrom", "fileKeyRef"], |key| fill(key, [("optional", json!(false))]));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        at(container, &[probe], complete_probe);
    }
    for hook in ["postStart", "preStop"] {
        at(container, &["lifecycle", hook, "httpGet"], complete_http_get);
    }
}

fn complete_probe(probe: &mut Value) {
    fill(
        probe,
        [
            ("timeoutSeconds", json!(1)),
            ("periodSeconds", json!(10)),
            ("successThreshold", json!(1)),
            ("failureThreshold", json!(3)),
        ],
    );
    at(probe, &["httpGet"], complete_http_get);
    at(probe, &["grpc"], |grpc| fill(grpc, [("service", json!(""))]));
}

fn complete_http_get(action: &mut Value) {
    fill(action, [("path", json!("/")), ("scheme", json!("HTTP"))]);
}

fn complete_field_reference(reference: &mut Value) {
    fill(reference, [("apiVersion", json!("v1"))]);
}

fn complete_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.keys().all(|field| field == "name") {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for (kind, source) in fields {
        complete_source(kind, source);
    }
}

/// By volume type: fields of the same name may have different defaults, or none.
fn complete_source(kind: &str, source: &mut Value) {
    const MODE: i32 = 0o644;
    match kind {
        "hostPath" => fill(source, [("type", json!(""))]),
        "secret" | "configMap" => fill(source, [("defaultMode", json!(MODE))]),
        "downwardAPI" => {
            fill(source, [("defaultMode", json!(MODE))]);
            items(source, "items").for_each(|item| at(item, &["fieldRef"], complete_field_reference));
        }
        "projected" => {
            fill(source, [("defaultMode", json!(MODE))]);
            items(source, "sources").for_each(complete_projection);
        }
        "image" => {
            let policy = pull_policy(source.get("reference"));
            fill(source, [("pullPolicy", json!(policy))]);
        }
        "iscsi" => fill(source, [("iscsiInterface", json!("default"))]),
        "rbd" => fill(
            source,
            [("pool", json!("rbd")), ("user", json!("admin")), ("keyring", json!("/etc/ceph/keyring"))],
        ),
        "azureDisk" => fill(
            source,
            [
                ("cachingMode", json!("ReadWrite")),
                ("fsType", json!("ext4")),
                ("readOnly", json!(false)),
                ("kind", json!("Shared")),
            ],
        ),
        "scaleIO" => {
            fill(source, [("storageMode", json!("ThinProvisioned")), ("fsType", json!("xfs"))]);
        }
        "ephemeral" => at(source, &["volumeClaimTemplate"], |claim| {
            fill(claim, [("metadata", json!({})), ("spec", json!({}))]);
            at(claim, &["spec"], |spec| {
                fill(spec, [("volumeMode", json!("Filesystem")), ("resources", json!({}))]);
            });
        }),
        _ => {}
    }
}

fn complete_projection(source: &mut Value) {
    at(source, &["serviceAccountToken"], |token| fill(token, [("expirationSeconds", json!(3600))]));
    at(source, &["downwardAPI"], |api| {
        items(api, "items").for_each(|item| at(item, &["fieldRef"], complete_field_reference));
    });
}

/// Adds missing fields to an object.
fn fill<const N: usize>(object: &mut Value, defaults: [(&str, Value); N]) {
    let Some(fields) = object.as_object_mut() else { return };
    for (field, value) in defaults {
        if !fields.contains_key(field) {
            fields.insert(field.to_owned(), value);
        }
    }
}

/// The value at a path.
fn at(object: &mut Value, path: &[&str], complete: impl FnOnce(&mut Value)) {
    let found = path.iter().try_fold(object, |value, field| value.get_mut(*field));
    if let Some(found) = found.filter(|value| value.is_object()) {
        complete(found);
    }
}

fn items<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The default pull policy of an image: `Always` for `latest`, and for an image without tag and digest, which means
/// `latest`. An invalid image name has no tag.
fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    let is_moving = matches!((tag, digest), (None, None) | (Some("latest"), _));
    if is_moving && is_repository(path) { "Always" } else { "IfNotPresent" }
}

/// Whether this is the name of a repository, with or without the domain of a registry.
fn is_repository(path: &str) -> bool {
    let is_domain = |first: &str| {
        first == "localhost" || first.contains(['.', ':']) || first.chars().any(|c| c.is_ascii_uppercase())
    };
    let path = match path.split_once('/') {
        Some((first, rest)) if is_domain(first) => rest,
        _ => path,
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && !part.contains(|c| !(is_plain(c) || "._-".contains(c)))
    };
    path.split('/').all(is_part)
}
