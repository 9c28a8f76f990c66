//! The shell for single pods: tells of those in several budgets, and takes back stale conditions.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{Key, PodDisruptionBudget};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde::Deserialize;

use super::selection::budgets_selecting;
use super::stale::{Verdict, clear, verdict};
use super::wording;

pub(super) struct Keeper {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) budgets: Arc<Informer<PodDisruptionBudget>>,
}

impl Reconcile for Keeper {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(pod) = self.pods.store().get(key) else { return Ok(Next::Settled) };
        let budgets = budgets_selecting(self.budgets.store(), &key.namespace, &pod.metadata.labels);
        if let [first, _, ..] = &budgets[..] {
            let message = wording::overlap(&pod, &first.metadata.name);
            self.events.warning(&ObjectRef::of(&*pod), "MultiplePodDisruptionBudgets", message);
        }
        match verdict(&pod, self.cx.clock.now()) {
            Verdict::Leave => Ok(Next::Settled),
            Verdict::Wait(left) => Ok(Next::After(left)),
            Verdict::Clear => self.clear(key, &pod).await.map(|()| Next::Settled),
        }
    }
}

impl Keeper {
    async fn clear(&self, key: &Key, seen: &Pod) -> Result<(), SyncError> {
        let doing = || format!("taking back the DisruptionTarget condition of {key}");
        let whole = self.cx.whole::<Pod>(key).await.map_err(SyncError::api(doing()))?;
        let Some(mut whole) = whole else { return Ok(()) };
        // The cache may be behind: what was true a moment ago need not be.
        let fresh: Pod = Pod::deserialize(&whole).map_err(|error| SyncError::other(doing(), error))?;
        let now = self.cx.clock.now();
        let is_stale = fresh.metadata.uid == seen.metadata.uid && verdict(&fresh, now) == Verdict::Clear;
        if !is_stale || !clear(&mut whole, now) {
            return Ok(());
        }
        let why = "it was to be disrupted two minutes ago, and lives on";
        match self.cx.writer(key).update::<Pod>(key, Some("status"), &whole, why).await {
            Err(error) if !error.is_not_found() => Err(SyncError::api(doing())(error)),
            _ => Ok(()),
        }
    }
}
