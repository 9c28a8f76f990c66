//! The status of a set. Pure.

use flyball_api::condition::{self, Condition};
use flyball_api::pod::Pod;
use flyball_api::replica_set::ReplicaSetStatus;
use flyball_api::time;
use flyball_common::pods::{FAILED_CREATE, FAILED_DELETE};
use flyball_runtime::Write;

use super::Replicated;
use super::plan::View;

/// The condition for pods that could not be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The write of `status`, if it has changed.
pub fn write<T: Replicated>(set: &T, status: &ReplicaSetStatus) -> Option<Write> {
    let ReplicaSetStatus { replicas, ready_replicas: ready, available_replicas: available, .. } = status;
    let why = || format!("{replicas} pods, {ready} ready, {available} available");
    (status != set.status()).then(|| Write::status(set, status).why(why()))
}

/// The status after a sync: the counts before its writes, as the cache shows their effect only later, and the failure of
/// a write. `terminating` is the number of terminating pods of the set, if they are counted.
pub fn status<T: Replicated>(
    view: &View<'_, T>,
    terminating: Option<usize>,
    failure: Option<&str>,
) -> ReplicaSetStatus {
    let count = |wanted: &dyn Fn(&Pod) -> bool| number(view.pods.iter().filter(|pod| wanted(pod)).count());
    let labels = view.set.template().map(|template| &template.metadata.labels);
    let fully_labeled = |pod: &Pod| {
        labels.is_none_or(|labels| {
            labels.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
        })
    };
    ReplicaSetStatus {
        replicas: number(view.pods.len()),
        fully_labeled_replicas: count(&fully_labeled),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| pod.is_available(view.set.min_ready_seconds(), view.now)),
        terminating_replicas: terminating.map(number),
        observed_generation: view.set.meta().generation,
        conditions: conditions(view, failure),
    }
}

/// The conditions, with `ReplicaFailure` as long as there is a failure. It keeps the message of the first failure, which
/// is more useful than the latest.
fn conditions<T: Replicated>(view: &View<'_, T>, failure: Option<&str>) -> Vec<Condition> {
    let mut conditions = view.set.status().conditions.clone();
    let is_known = conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        Some(_) if is_known => {}
        Some(message) => conditions.push(Condition {
            type_: REPLICA_FAILURE.into(),
            status: condition::TRUE.into(),
            last_transition_time: Some(time::truncate(view.now)),
            reason: if view.pods.len() < view.set.replicas() { FAILED_CREATE } else { FAILED_DELETE }.into(),
            message: message.into(),
            ..Condition::default()
        }),
    }
    conditions
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
