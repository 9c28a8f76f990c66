//! When the finalizer of a PodGroup is removed. Pure.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Object, PartialObject};
use flyball_runtime::plan::Operation;
use flyball_runtime::{ErrorKinds, Plan, Waiting, Write};
use serde_json::Value;

use super::triggers::needs_release;
use super::{FINALIZER, POD_GROUPS};

/// How many of the pods that a group waits for are listed.
const LISTED: usize = 10;

/// Everything that the decision depends on.
pub struct View<'a> {
    pub group: &'a PartialObject,
    /// The pods of the group that have not finished.
    pub active: &'a [Arc<Pod>],
    /// The whole group as the server has it. Only needed if it is to be released.
    pub whole: Option<Value>,
}

/// Whether a group that is being deleted has no active pods.
pub fn is_releasable(group: &PartialObject, active: &[Arc<Pod>]) -> bool {
    needs_release(group) && active.is_empty()
}

/// Removes the finalizer from a group that is being deleted, once none of its pods is active.
pub fn plan(view: View<'_>) -> Plan {
    let View { group, active, whole } = view;
    if !is_releasable(group, active) {
        let pods = active.iter().filter(|_| needs_release(group)).take(LISTED);
        return Plan::default().waiting_for(pods.map(|pod| Waiting::on::<Pod>(&pod.key(), "to finish")));
    }
    Plan::of(whole.and_then(released).map(|body| {
        Write::of(POD_GROUPS, group.key(), Operation::Update(body.into()))
            .why("none of its pods is active any more")
            .ignore(ErrorKinds::NOT_FOUND)
    }))
}

/// The group without the finalizer; `None` if it does not have it, or is not being deleted.
fn released(mut group: Value) -> Option<Value> {
    group.pointer("/metadata/deletionTimestamp")?;
    let finalizers = group.pointer_mut("/metadata/finalizers")?.as_array_mut()?;
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    (finalizers.len() < before).then_some(group)
}
