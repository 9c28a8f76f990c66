//! The shell: look up, count, let go.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PartialObject};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::Value;

use super::triggers::waits;
use super::{AT_WORK, FINALIZER, POD_GROUPS};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) groups: Arc<Informer<PartialObject>>,
    pub(super) pods: Arc<Informer<Pod>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let is_waiting = self.groups.store().get(key).is_some_and(|group| waits(&group));
        if !is_waiting || self.pods.store().count_by(&AT_WORK, &key.to_string()) > 0 {
            return Ok(Next::Settled);
        }
        let doing = || format!("letting go of pod group {key}");
        let whole = self.cx.whole_dynamic(&POD_GROUPS, key).await;
        let Some(body) = whole.map_err(|error| SyncError::api(doing())(error))?.and_then(released) else {
            return Ok(Next::Settled);
        };
        let why = "no pod of the group is at work any more";
        let (writer, kind) = (self.cx.writer(key), POD_GROUPS);
        match writer.update_dynamic::<PartialObject>(&kind, key, None, &body, why).await {
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            written => written.map(|_| Next::Settled).map_err(|error| SyncError::api(doing())(error)),
        }
    }
}

/// The group without our finalizer; none if it has none, or is not being deleted.
pub(super) fn released(mut group: Value) -> Option<Value> {
    group.pointer("/metadata/deletionTimestamp")?;
    let finalizers = group.pointer_mut("/metadata/finalizers")?.as_array_mut()?;
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    (finalizers.len() < before).then_some(group)
}
