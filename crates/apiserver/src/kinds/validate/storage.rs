//! Volumes, claims, classes and drivers.

use std::cmp::Ordering;

use serde_json::Value;

use super::{At, Faults, go_struct, names, quoting, selector};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flocker",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn access_modes(faults: &mut Faults, spec: &At<'_>) {
    let modes = spec.value.items("accessModes");
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    for mode in spec.items("accessModes").filter(|mode| !MODES.contains(&mode.text(""))) {
        faults.push(Cause::not_supported(spec.path("accessModes"), mode.text(""), &MODES));
    }
    if has("ReadWriteOncePod") && modes.len() > 1 {
        let detail = "may not use ReadWriteOncePod with other access modes";
        faults.push(Cause::forbidden(spec.path("accessModes"), detail));
    }
}

pub(in crate::kinds) fn volume(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if spec.value.items("accessModes").is_empty() {
        faults.push(Cause::required(spec.path("accessModes"), ""));
    }
    access_modes(&mut faults, &spec);
    capacity(&mut faults, &spec);
    spec.one_of(&mut faults, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]);
    let given: Vec<&&str> = SOURCES.iter().filter(|source| spec.has(source)).collect();
    for extra in given.iter().skip(1) {
        faults.push(Cause::forbidden(spec.path(extra), "may not specify more than 1 volume type"));
    }
    if given.is_empty() {
        faults.push(Cause::required(spec.path.clone(), "must specify a volume type"));
    }
    if spec.has("hostPath") {
        spec.child("hostPath").require(&mut faults, "path");
        let recycled = spec.text("persistentVolumeReclaimPolicy") == "Recycle";
        if recycled && spec.text("hostPath.path").trim_end_matches('/').is_empty() {
            let detail = "may not be 'recycle' for a hostPath mount of '/'";
            faults.push(Cause::forbidden(spec.path("persistentVolumeReclaimPolicy"), detail));
        }
    }
    if spec.has("csi") {
        spec.child("csi").require(&mut faults, "driver");
        spec.child("csi").require(&mut faults, "volumeHandle");
    }
    spec.may_be(&mut faults, "storageClassName", names::subdomain);
    spec.one_of(&mut faults, "volumeMode", &["Block", "Filesystem"]);
    if let Some(old) = old {
        let source =
            |volume: &Value| SOURCES.iter().map(|s| volume.at("spec").at(s).clone()).collect::<Vec<_>>();
        if source(object) != source(old) {
            faults.push(Cause::forbidden(
                "spec.persistentvolumesource",
                "spec.persistentvolumesource is immutable after creation",
            ));
        }
        At::root(object).immutable(&mut faults, old, "spec.volumeMode");
    }
    faults
}

fn capacity(faults: &mut Faults, spec: &At<'_>) {
    let capacity = spec.child("capacity");
    if capacity.value.map("").is_none_or(|map| map.is_empty()) {
        faults.push(Cause::required(capacity.path.clone(), ""));
    }
    let only_storage =
        capacity.value.map("").is_some_and(|map| map.len() == 1 && map.contains_key("storage"));
    if !only_storage {
        faults.push(Cause::not_supported(capacity.path.clone(), capacity.value.clone(), &["storage"]));
    }
    for (_, quantity) in spec.entries("capacity") {
        if Quantity::parse(quantity.text("")).is_some_and(|q| q.sign() != Ordering::Greater) {
            faults.push(quantity.invalid("must be greater than zero"));
        }
    }
}

pub(in crate::kinds) fn claim(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    claim_spec(&mut faults, &spec);
    if let Some(old) = old {
        claim_update(&mut faults, object, old);
    }
    faults
}

/// Also for the claims of stateful sets and of ephemeral volumes.
pub(in crate::kinds) fn claim_spec(faults: &mut Faults, spec: &At<'_>) {
    if spec.value.items("accessModes").is_empty() {
        faults.push(Cause::required(spec.path("accessModes"), "at least 1 access mode is required"));
    }
    if spec.has("selector") {
        selector::check(faults, &spec.child("selector"));
    }
    access_modes(faults, spec);
    let path = spec.path("resources[storage]");
    match spec.value.at("resources.requests.storage").as_str() {
        None => faults.push(Cause::required(path, "")),
        Some(text) => {
            if Quantity::parse(text).is_some_and(|quantity| quantity.sign() != Ordering::Greater) {
                faults.push(Cause::invalid(path, text, "must be greater than zero"));
            }
        }
    }
    spec.may_be(faults, "storageClassName", names::subdomain);
    spec.one_of(faults, "volumeMode", &["Block", "Filesystem"]);
    for source in ["dataSource", "dataSourceRef"] {
        let source = spec.child(source);
        if source.value.is_object() {
            source.require(faults, "name");
            source.require(faults, "kind");
        }
    }
}

/// A claim can be expanded and bound; other fields may not change.
fn claim_update(faults: &mut Faults, new: &Value, old: &Value) {
    let rest = |claim: &Value| {
        let mut spec = claim.at("spec").clone();
        for field in ["resources", "volumeAttributesClassName"] {
            spec.pull(field);
        }
        if old.text("spec.volumeName").is_empty() {
            spec.pull("volumeName");
        }
        spec
    };
    let class_given = old.at("spec.storageClassName").is_null() && new.has("spec.storageClassName");
    let (mut new_rest, mut old_rest) = (rest(new), rest(old));
    if class_given {
        new_rest.pull("storageClassName");
        old_rest.pull("storageClassName");
    }
    if new_rest != old_rest {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                      bound claims";
        faults.push(Cause::forbidden("spec", detail));
        return;
    }
    let size = |claim: &Value| Quantity::parse(claim.text("spec.resources.requests.storage"));
    if let (Some(wanted), Some(had)) = (size(new), size(old)) {
        match wanted.compare(had) {
            Ordering::Less => {
                let detail = "field can not be less than previous value";
                faults.push(Cause::forbidden("spec.resources.requests.storage", detail));
            }
            Ordering::Greater if old.text("status.phase") != "Bound" => {
                let detail = "spec is immutable after creation except resources.requests and \
                              volumeAttributesClassName for bound claims";
                faults.push(Cause::forbidden("spec", detail));
            }
            _ => {}
        }
    }
}

pub(in crate::kinds) fn storage_class(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.require(&mut faults, "provisioner");
    root.one_of(&mut faults, "reclaimPolicy", &["Delete", "Retain"]);
    root.one_of(&mut faults, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
    if let Some(old) = old {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            root.immutable(&mut faults, old, field);
        }
        root.immutable(&mut faults, old, "volumeBindingMode");
    }
    faults
}

pub(in crate::kinds) fn attributes_class(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.require(&mut faults, "driverName");
    root.require(&mut faults, "parameters");
    for field in ["driverName", "parameters"] {
        if old.is_some_and(|old| old.at(field) != object.at(field)) {
            faults.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
    faults
}

pub(in crate::kinds) fn csi_driver(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.one_of(&mut faults, "fsGroupPolicy", &["ReadWriteOnceWithFSType", "File", "None"]);
    for mode in spec.items("volumeLifecycleModes") {
        let allowed = ["Persistent", "Ephemeral"];
        if !allowed.contains(&mode.text("")) {
            faults.push(Cause::not_supported(spec.path("volumeLifecycleModes"), mode.text(""), &allowed));
        }
    }
    if let Some(old) = old {
        // Upstream misspells the first.
        for (field, path) in [
            ("attachRequired", "spec.attachedRequired"),
            ("volumeLifecycleModes", "spec.volumeLifecycleModes"),
        ] {
            if spec.value.at(field) != old.at("spec").at(field) {
                faults.push(Cause::invalid(path, spec.value.at(field).clone(), "field is immutable"));
            }
        }
    }
    faults
}

pub(in crate::kinds) fn csi_node(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for driver in At::root(object).child("spec").items("drivers") {
        driver.require(&mut faults, "name");
        driver.require(&mut faults, "nodeID");
        if seen.contains(&driver.text("name")) {
            faults.push(Cause::duplicate(driver.path("name"), driver.text("name")));
        }
        seen.push(driver.text("name"));
    }
    faults
}

pub(in crate::kinds) fn csi_capacity(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.must_be(&mut faults, "storageClassName", names::subdomain);
    for field in ["capacity", "maximumVolumeSize"] {
        let text = root.text(field);
        if Quantity::parse(text).is_some_and(|quantity| quantity.sign() == Ordering::Less) {
            faults.push(Cause::invalid(field, text, "must be greater than or equal to 0"));
        }
    }
    if let Some(old) = old {
        root.immutable(&mut faults, old, "nodeTopology");
        root.immutable(&mut faults, old, "storageClassName");
    }
    faults
}

pub(in crate::kinds) fn attachment(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.require(&mut faults, "attacher");
    let source = spec.child("source");
    if source.has("persistentVolumeName") == source.has("inlineVolumeSpec") {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        faults.push(Cause::required(source.path.clone(), detail));
    }
    spec.must_be(&mut faults, "nodeName", names::subdomain);
    if old.is_some_and(|old| old.at("spec") != object.at("spec")) {
        let inner = [
            ("PersistentVolumeName", source.value.at("persistentVolumeName")),
            ("InlineVolumeSpec", source.value.at("inlineVolumeSpec")),
        ];
        let (attacher, node) = (spec.value.at("attacher"), spec.value.at("nodeName"));
        let value =
            format!("{{\"Attacher\":{attacher},\"Source\":{},\"NodeName\":{node}}}", go_struct(&inner));
        faults.push(quoting(Fault::Invalid, "spec".to_owned(), &value, "field is immutable"));
    }
    faults
}
