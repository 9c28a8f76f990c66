//! Objects as the API server sends them.

use flyball_api::*;

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
