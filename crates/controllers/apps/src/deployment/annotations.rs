//! The notes that a Deployment leaves on its ReplicaSets and on itself.

use flyball_api::Labels;

/// Which rollout a ReplicaSet, or the Deployment, is at.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Which rollouts a ReplicaSet served before the present one, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the Deployment wanted when it last scaled a ReplicaSet.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods it would then have borne, surge included.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for an old revision, by number; zero stands for the last one. The field it replaces is gone from the API.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// What `kubectl apply` remembers of a Deployment; it would be wrong on any other object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether users' notes under `key` travel between a Deployment and its ReplicaSet of the present template.
/// `kubernetes.io/change-cause` is the best known of them.
pub fn is_shared(key: &str) -> bool {
    ![LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO].contains(&key)
}

/// The size noted under `key`; nothing when it is missing or was tampered with.
pub fn size(annotations: &Labels, key: &str) -> Option<i64> {
    let text = annotations.get(key)?;
    // Upstream reads an unsigned number: no sign is allowed.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<i32>().ok().filter(|_| digits).map(i64::from)
}

/// The annotations with the sizes of a Deployment noted in them.
pub fn with_sizes(annotations: &Labels, desired: i64, max: i64) -> Labels {
    annotations.with(DESIRED_REPLICAS, &desired.to_string()).with(MAX_REPLICAS, &max.to_string())
}
