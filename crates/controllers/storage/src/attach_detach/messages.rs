//! The messages of events, as upstream has them. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;

use crate::disk::Disk;

/// Upstream's message ends with a space.
pub(super) fn attached(disk: &Disk) -> String {
    format!("AttachVolume.Attach succeeded for volume \"{}\" ", disk.title)
}

pub(super) fn attach_failed(disk: &Disk, why: &str) -> String {
    format!("AttachVolume.Attach failed for volume \"{}\" : {why}", disk.title)
}

/// The disk is exclusively attached to another node. `holders` are the pods there that need it; the names of those in other
/// namespaces are not disclosed.
pub(super) fn multi_attach(disk: &Disk, waiting: &Pod, holders: &[Arc<Pod>]) -> String {
    let is_same_namespace = |pod: &&Arc<Pod>| pod.metadata.namespace == waiting.metadata.namespace;
    let names = holders.iter().filter(is_same_namespace).map(|pod| pod.metadata.name.as_str());
    let names: Vec<&str> = names.collect();
    let others = holders.len() - names.len();
    let why = match (names.is_empty(), others) {
        (true, 0) => {
            "Volume is already exclusively attached to one node, waiting on detach before it can be \
                      attached to another node"
                .to_owned()
        }
        (true, others) => format!("Volume is already used by {others} pod(s) in different namespaces"),
        (false, 0) => format!("Volume is already used by pod(s) {}", names.join(", ")),
        (false, others) => {
            format!(
                "Volume is already used by pod(s) {} and {others} pod(s) in different namespaces",
                names.join(", ")
            )
        }
    };
    format!("Waiting for detach for volume \"{}\" {why}", disk.title)
}
