//! Validates the volumes of a pod.

use crate::invalid::Cause;
use crate::kinds::validate::{At, Faults, names, storage};

/// The required fields of the sources that have any, in the order in which upstream checks them.
const REQUIRED: [(&str, &[&str]); 12] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("downwardAPI", &[]),
    ("configMap", &["name"]),
    ("projected", &[]),
    ("csi", &["driver"]),
    ("ephemeral", &[]),
];

/// Checks the volumes and returns their names.
pub(super) fn check<'v>(faults: &mut Faults, spec: &At<'v>) -> Vec<&'v str> {
    let mut known: Vec<&str> = Vec::new();
    for volume in spec.items("volumes") {
        sources(faults, &volume);
        let name = volume.text("name");
        if volume.require(faults, "name") {
            volume.must_be(faults, "name", names::label);
            if known.contains(&name) {
                faults.push(Cause::duplicate(volume.path("name"), name));
            }
            known.push(name);
        }
        projected(faults, spec, &volume);
    }
    known
}

fn sources(faults: &mut Faults, volume: &At<'_>) {
    let mut given = 0;
    for (source, fields) in REQUIRED {
        let at = volume.child(source);
        if at.value.is_null() {
            continue;
        }
        given += 1;
        if given > 1 {
            faults.push(Cause::forbidden(at.path.clone(), "may not specify more than 1 volume type"));
            continue;
        }
        for field in fields {
            at.require(faults, field);
        }
        if source == "hostPath" && at.text("path").split('/').any(|part| part == "..") {
            faults.push(Cause::invalid(at.path("path"), at.text("path"), "must not contain '..'"));
        }
        if source == "ephemeral" {
            let template = at.child("volumeClaimTemplate");
            if template.value.is_null() {
                faults.push(Cause::required(template.path.clone(), ""));
            } else {
                storage::claim_spec(faults, &template.child("spec"));
            }
        }
        at.between(faults, "defaultMode", 0, 0o777);
    }
}

fn projected(faults: &mut Faults, spec: &At<'_>, volume: &At<'_>) {
    for source in volume.child("projected").items("sources") {
        let token = source.child("serviceAccountToken");
        if token.value.is_object() {
            if spec.text("serviceAccountName").is_empty() && spec.path == "spec" {
                let detail = "must not be specified when serviceAccountName is not set";
                faults.push(Cause::forbidden(token.path.clone(), detail));
            }
            token.require(faults, "path");
            if let Some(seconds) = token.int("expirationSeconds").filter(|seconds| *seconds < 600) {
                let detail = "may not specify a duration less than 10 minutes";
                faults.push(Cause::invalid(token.path("expirationSeconds"), seconds, detail));
            }
        }
        for field in ["configMap", "secret"] {
            let reference = source.child(field);
            if reference.value.is_object() {
                reference.require(faults, "name");
            }
        }
    }
}
