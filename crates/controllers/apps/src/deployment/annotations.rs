//! The annotations of a Deployment and its ReplicaSets.

use flyball_api::Labels;

/// The revision of a ReplicaSet or of the Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a ReplicaSet, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when it last scaled the ReplicaSet.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same plus the surge.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Requests a rollback to a revision; zero means the last one. It replaces a field that the API no longer has.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The last configuration that `kubectl apply` has applied to a Deployment. It must not be copied to other objects.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether an annotation is copied between a Deployment and its ReplicaSet, such as `kubernetes.io/change-cause`.
pub fn is_shared(key: &str) -> bool {
    ![LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&key)
}

/// The size in an annotation; `None` if it is missing or no number.
pub fn size(annotations: &Labels, key: &str) -> Option<i64> {
    let text = annotations.get(key)?;
    // Upstream reads an unsigned number: no sign is allowed.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<i32>().ok().filter(|_| digits).map(i64::from)
}

/// The annotations with the sizes of a Deployment.
pub fn with_sizes(annotations: &Labels, desired: i64, max: i64) -> Labels {
    annotations.with(DESIRED_REPLICAS, &desired.to_string()).with(MAX_REPLICAS, &max.to_string())
}
