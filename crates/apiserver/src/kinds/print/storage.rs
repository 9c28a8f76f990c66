//! Volumes, claims, classes and drivers.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cell, NAME, Printer, flag, int, or_none, text, wide};
use crate::kinds::json::Json;
use crate::registry::Column;

pub(in crate::kinds) const VOLUME: Printer = Printer {
    columns: &[
        NAME,
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: &[
        Cell::Name,
        Cell::TextOr("spec.capacity.storage", "0"),
        Cell::With(|volume, _| access_modes(volume.items("spec.accessModes"))),
        Cell::Text("spec.persistentVolumeReclaimPolicy"),
        Cell::With(phase),
        Cell::With(claim),
        Cell::With(class),
        Cell::TextOr("spec.volumeAttributesClassName", "<unset>"),
        Cell::Text("status.reason"),
        Cell::Age,
        Cell::TextOr("spec.volumeMode", "<unset>"),
    ],
};

pub(in crate::kinds) const CLAIM: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ],
    cells: &[
        Cell::Name,
        Cell::With(phase),
        Cell::Text("spec.volumeName"),
        Cell::With(|claim, _| {
            if_bound(claim, claim.at("status.capacity.storage").as_str().unwrap_or("0").to_owned())
        }),
        Cell::With(|claim, _| if_bound(claim, access_modes(claim.items("status.accessModes")))),
        Cell::With(class),
        Cell::TextOr("spec.volumeAttributesClassName", "<unset>"),
        Cell::Age,
        Cell::TextOr("spec.volumeMode", "<unset>"),
    ],
};

pub(in crate::kinds) const STORAGE_CLASS: Printer = Printer {
    columns: &[
        NAME,
        text("Provisioner"),
        text("ReclaimPolicy"),
        text("VolumeBindingMode"),
        text("AllowVolumeExpansion"),
        AGE,
    ],
    cells: &[
        Cell::With(default_class),
        Cell::Text("provisioner"),
        Cell::TextOr("reclaimPolicy", "Delete"),
        Cell::TextOr("volumeBindingMode", "Immediate"),
        Cell::Flag("allowVolumeExpansion"),
        Cell::Age,
    ],
};

pub(in crate::kinds) const ATTRIBUTES_CLASS: Printer = Printer {
    columns: &[NAME, text("DriverName"), AGE],
    cells: &[
        Cell::With(|class, _| {
            with_default(class, "storage.alpha.kubernetes.io/is-default-volume-attributes-class")
        }),
        Cell::Text("driverName"),
        Cell::Age,
    ],
};

pub(in crate::kinds) const ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        Column { format: "name", ..text("Attacher") },
        text("PV"),
        text("Node"),
        flag("Attached"),
        AGE,
    ],
    cells: &[
        Cell::Name,
        Cell::Text("spec.attacher"),
        Cell::Text("spec.source.persistentVolumeName"),
        Cell::Text("spec.nodeName"),
        Cell::Flag("status.attached"),
        Cell::Age,
    ],
};

pub(in crate::kinds) const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        flag("AttachRequired"),
        flag("PodInfoOnMount"),
        flag("StorageCapacity"),
        text("TokenRequests"),
        flag("RequiresRepublish"),
        text("Modes"),
        AGE,
    ],
    cells: &[
        Cell::Name,
        Cell::Flag("spec.attachRequired"),
        Cell::Flag("spec.podInfoOnMount"),
        Cell::Flag("spec.storageCapacity"),
        Cell::With(audiences),
        Cell::Flag("spec.requiresRepublish"),
        Cell::With(lifecycle_modes),
        Cell::Age,
    ],
};

pub(in crate::kinds) const CSI_NODE: Printer = Printer {
    columns: &[NAME, int("Drivers"), AGE],
    cells: &[Cell::Name, Cell::Count("spec.drivers"), Cell::Age],
};

fn phase(object: &Value, _: Timestamp) -> String {
    let deleting = object.has("metadata.deletionTimestamp");
    if deleting { "Terminating".to_owned() } else { object.text("status.phase").to_owned() }
}

fn claim(volume: &Value, _: Timestamp) -> String {
    match volume.at("spec.claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", claim.text("namespace"), claim.text("name")),
    }
}

/// The class, from the deprecated annotation if the object has it.
fn class(object: &Value, _: Timestamp) -> String {
    let annotation = object.entry("metadata.annotations", "volume.beta.kubernetes.io/storage-class");
    annotation.unwrap_or(object.text("spec.storageClassName")).to_owned()
}

fn if_bound(claim: &Value, text: String) -> String {
    if claim.text("spec.volumeName").is_empty() { String::new() } else { text }
}

/// Abbreviations without duplicates, in a fixed order.
fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    short.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn default_class(class: &Value, _: Timestamp) -> String {
    let beta = class.entry("metadata.annotations", "storageclass.beta.kubernetes.io/is-default-class");
    if beta == Some("true") {
        return format!("{} (default)", class.text("metadata.name"));
    }
    with_default(class, "storageclass.kubernetes.io/is-default-class")
}

/// The name, and whether an annotation makes the object the default of its kind.
pub(super) fn with_default(object: &Value, annotation: &str) -> String {
    let name = object.text("metadata.name");
    match object.entry("metadata.annotations", annotation) {
        Some("true") => format!("{name} (default)"),
        _ => name.to_owned(),
    }
}

fn audiences(driver: &Value, _: Timestamp) -> String {
    match driver.at("spec.tokenRequests") {
        Value::Array(requests) => requests.iter().map(|r| r.text("audience")).collect::<Vec<_>>().join(","),
        _ => "<unset>".to_owned(),
    }
}

fn lifecycle_modes(driver: &Value, _: Timestamp) -> String {
    let modes = driver.items("spec.volumeLifecycleModes").iter().filter_map(Value::as_str);
    or_none(&modes.collect::<Vec<_>>().join(","))
}
