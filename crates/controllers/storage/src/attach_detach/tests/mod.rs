//! Tables for the pure parts.

mod plan;
mod triggers;

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{PersistentVolume, VolumeAttachment};
use serde_json::{Value, json};

use super::caches::DesiredAttachment;
use crate::disk::Disk;

fn volume(spec: Value) -> PersistentVolume {
    serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap()
}

pub(super) fn pod(namespace: &str, name: &str) -> Arc<Pod> {
    Arc::new(serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name}})).unwrap())
}

/// A pod needs a disk of a driver, or one that the node attaches itself.
pub(super) fn desired(has_driver: bool, mode: &str) -> DesiredAttachment {
    let spec = if has_driver {
        json!({"csi": {"driver": "d.example", "volumeHandle": "h"}, "accessModes": [mode]})
    } else {
        json!({"iscsi": {"targetPortal": "p:3260", "iqn": "iqn.x", "lun": 1}, "accessModes": [mode]})
    };
    DesiredAttachment { disk: Disk::of_volume(&volume(spec)).unwrap(), pods: vec![pod("ns", "app")] }
}

fn attachment(is_attached: bool, is_deleting: bool, error: Option<&str>) -> VolumeAttachment {
    let mut status = json!({"attached": is_attached});
    if let Some(error) = error {
        let kind = if is_deleting { "detachError" } else { "attachError" };
        status[kind] = json!({"message": error});
    }
    let mut metadata = json!({"name": "csi-x", "uid": "u"});
    if is_deleting {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
}
