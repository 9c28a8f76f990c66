//! Tables for the pure parts.

mod attempts;
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

/// Who attaches a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Csi,
    Flex,
    Node,
}

/// A pod needs a disk.
pub(super) fn desired(by: By, mode: &str) -> DesiredAttachment {
    let mut spec = match by {
        By::Csi => json!({"csi": {"driver": "d.example", "volumeHandle": "h"}}),
        By::Flex => json!({"flexVolume": {"driver": "example.com/lvm"}}),
        By::Node => json!({"iscsi": {"targetPortal": "p:3260", "iqn": "iqn.x", "lun": 1}}),
    };
    spec["accessModes"] = json!([mode]);
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
    serde_json::from_value(json!({"metadata": metadata, "spec": {"attacher": "d.example"}, "status": status}))
        .unwrap()
}
