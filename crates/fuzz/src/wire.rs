//! Objects as the API server sends them.

use std::fmt::Debug;

use flyball_api::protobuf::{self, Envelope, List, Message, WatchEvent};
use flyball_api::*;
use serde_json::Value;

type Decode = fn(&[u8]);

fn decode<T: Object>(json: &[u8]) {
    if let Ok(object) = T::from_json(json) {
        // What a cache and a trigger read first.
        let _ = (object.key(), object.uid().clone(), object.is_deleting());
    }
}

/// Every kind that we decode.
const KINDS: &[Decode] = &[
    decode::<PartialObject>,
    decode::<CSIDriver>,
    decode::<CSINode>,
    decode::<CertificateSigningRequest>,
    decode::<ClusterRole>,
    decode::<ClusterTrustBundle>,
    decode::<ConfigMap>,
    decode::<ControllerRevision>,
    decode::<CronJob>,
    decode::<DaemonSet>,
    decode::<Deployment>,
    decode::<DeviceClass>,
    decode::<DeviceTaintRule>,
    decode::<EndpointSlice>,
    decode::<Endpoints>,
    decode::<Event>,
    decode::<HorizontalPodAutoscaler>,
    decode::<IPAddress>,
    decode::<Job>,
    decode::<Lease>,
    decode::<Namespace>,
    decode::<Node>,
    decode::<PersistentVolume>,
    decode::<PersistentVolumeClaim>,
    decode::<Pod>,
    decode::<PodDisruptionBudget>,
    decode::<PodGroup>,
    decode::<ReplicaSet>,
    decode::<ReplicationController>,
    decode::<ResourceClaim>,
    decode::<ResourceClaimTemplate>,
    decode::<ResourcePoolStatusRequest>,
    decode::<ResourceQuota>,
    decode::<ResourceSlice>,
    decode::<Secret>,
    decode::<Service>,
    decode::<ServiceAccount>,
    decode::<ServiceCIDR>,
    decode::<StatefulSet>,
    decode::<StorageClass>,
    decode::<StorageVersion>,
    decode::<StorageVersionMigration>,
    decode::<ValidatingAdmissionPolicy>,
    decode::<VolumeAttachment>,
    decode::<VolumeAttributesClass>,
    decode::<Workload>,
];

/// Every kind gets the same bytes: whatever the server sends for one kind may come for another.
pub(crate) fn wire(data: &[u8]) {
    for decode in KINDS {
        decode(data);
    }
}

/// What is read from protobuf is what is read from its JSON, if both can be read, and if the message has all fields that JSON has:
/// Go always writes them, even if they are empty.
fn decode_message<T: Object + Debug>(message: &'static Message, bytes: &[u8]) {
    let direct = T::from_protobuf(message, bytes);
    let Ok(json) = protobuf::to_json(message, bytes) else { return };
    let is_complete = protobuf::decode::<Value>(message, bytes).ok() == serde_json::from_str(&json).ok();
    if !is_complete {
        return;
    }
    let via_json = T::from_json(json.as_bytes());
    if let (Ok(direct), Ok(via_json)) = (direct, via_json) {
        assert_eq!(format!("{direct:?}"), format!("{via_json:?}"), "{json}");
    }
}

type DecodeMessage = fn(&'static Message, &[u8]);

/// Kinds between them with every shape of field: quantities, times, numbers or texts, maps, bytes, templates, inlined messages,
/// JSON inside a message.
const MESSAGES: &[(&str, &str, DecodeMessage)] = &[
    ("v1", "Pod", decode_message::<Pod>),
    ("v1", "Node", decode_message::<Node>),
    ("v1", "Secret", decode_message::<Secret>),
    ("v1", "ConfigMap", decode_message::<ConfigMap>),
    ("v1", "Service", decode_message::<Service>),
    ("v1", "Event", decode_message::<Event>),
    ("v1", "PersistentVolume", decode_message::<PersistentVolume>),
    ("v1", "PersistentVolumeClaim", decode_message::<PersistentVolumeClaim>),
    ("v1", "ResourceQuota", decode_message::<ResourceQuota>),
    ("apps/v1", "ReplicaSet", decode_message::<ReplicaSet>),
    ("apps/v1", "ControllerRevision", decode_message::<ControllerRevision>),
    ("batch/v1", "Job", decode_message::<Job>),
    ("batch/v1", "CronJob", decode_message::<CronJob>),
    ("autoscaling/v2", "HorizontalPodAutoscaler", decode_message::<HorizontalPodAutoscaler>),
    ("coordination.k8s.io/v1", "Lease", decode_message::<Lease>),
    ("discovery.k8s.io/v1", "EndpointSlice", decode_message::<EndpointSlice>),
    ("resource.k8s.io/v1", "ResourceClaim", decode_message::<ResourceClaim>),
    ("storage.k8s.io/v1", "VolumeAttachment", decode_message::<VolumeAttachment>),
    ("meta.k8s.io/v1", "PartialObjectMetadata", decode_message::<PartialObject>),
];

/// An object in protobuf: the first byte chooses its kind, the rest is its message, and also tried as an envelope, a list and an
/// event.
pub(crate) fn message(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    if let Some((version, kind, decode)) = MESSAGES.get(usize::from(*which) % MESSAGES.len()) {
        decode(Message::of_kind(version, kind).expect("a kind of the schema"), bytes);
    }
    let _ = (List::open(bytes).is_ok(), WatchEvent::open(bytes).is_ok());
    if let Ok(envelope) = Envelope::open(bytes) {
        let _ = (envelope.to_json().is_ok(), envelope.item_message().is_ok());
    }
}
