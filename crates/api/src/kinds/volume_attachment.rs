//! VolumeAttachments.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{Labels, ObjectMeta, RawJson, Timestamp, WithRaw, intern, resource, time};

/// A storage.k8s.io/v1 VolumeAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachment {
    pub metadata: ObjectMeta,
    pub spec: WithRaw<VolumeAttachmentSpec>,
    pub status: VolumeAttachmentStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    #[serde(deserialize_with = "intern::text")]
    pub attacher: SmolStr,
    pub source: VolumeAttachmentSource,
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSource {
    pub persistent_volume_name: Option<SmolStr>,
    pub inline_volume_spec: Option<RawJson>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentStatus {
    pub attached: bool,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub attachment_metadata: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach_error: Option<VolumeError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach_error: Option<VolumeError>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeError {
    #[serde(with = "time::seconds_opt", skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub message: SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i32>,
}

resource!(VolumeAttachment, "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", cluster);
