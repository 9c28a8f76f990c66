//! The messages of events, as upstream has them. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;

use crate::disk::Disk;

/// The space at the end is upstream's.
pub(super) fn attached(disk: &Disk) -> String {
    format!("AttachVolume.Attach succeeded for volume \"{}\" ", disk.title)
}

pub(super) fn attach_failed(disk: &Disk, why: &str) -> String {
    format!("AttachVolume.Attach failed for volume \"{}\" : {why}", disk.title)
}

/// The disk is exclusively on another node. Names of pods in other namespaces are not disclosed.
pub(super) fn held(disk: &Disk, waiting: &Pod, holders: &[Arc<Pod>]) -> String {
    let is_near = |pod: &&Arc<Pod>| pod.metadata.namespace == waiting.metadata.namespace;
    let near: Vec<&str> = holders.iter().filter(is_near).map(|pod| pod.metadata.name.as_str()).collect();
    let far = holders.len() - near.len();
    let who = match (near.is_empty(), far) {
        (true, 0) => {
            "Volume is already exclusively attached to one node, waiting on detach before it can be \
                      attached to another node"
                .to_owned()
        }
        (true, far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (false, 0) => format!("Volume is already used by pod(s) {}", near.join(", ")),
        (false, far) => {
            format!(
                "Volume is already used by pod(s) {} and {far} pod(s) in different namespaces",
                near.join(", ")
            )
        }
    };
    format!("Waiting for detach for volume \"{}\" {who}", disk.title)
}
