//! The shell: read the namespace, delete its content, plan, execute. Live reads decide: no cache holds all content of a
//! namespace, and with a stale cache a namespace could be finalized that is not empty.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use flyball_api::{Key, Namespace, Timestamp};
use flyball_cache::Informer;
use flyball_client::{Discovery, Error};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};

use super::content::{Collection, Remains, collections, is_second_due, stages};
use super::empty::Emptying;
use super::invariants;
use super::plan::{self, AfterAttempt, View, plan};
use super::status::Findings;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) namespaces: Arc<Informer<Namespace>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        if self.namespaces.store().get(key).is_none() {
            return Ok(Next::Settled);
        }
        match self.delete(key).await {
            Err(error) if error.api_error().is_some_and(Error::is_not_found) => Ok(Next::Settled),
            done => done,
        }
    }
}

impl Controller {
    async fn delete(&self, key: &Key) -> Result<Next, SyncError> {
        let namespace = self.read(key).await?;
        let executor = self.cx.executor(key).without_barrier();
        executor.perform::<()>(plan::mark_terminating(&namespace)).await.result()?;
        let Some(deleted_at) = namespace.metadata.deletion_timestamp else { return Ok(Next::Settled) };
        if !plan::is_to_be_emptied(&namespace) {
            return Ok(Next::Settled);
        }
        let discovery = self.cx.client.discover().await.map_err(|error| Chain(&error).to_string());
        let pods_first = self.cx.gates.enabled(Gate::OrderedNamespaceDeletion);
        let remains = match &discovery {
            Ok(discovery) => self.empty(key, deleted_at, discovery, pods_first).await,
            Err(_) => vec![],
        };
        let findings = Findings::of(discovery.as_ref(), &remains, pods_first);
        let now = self.cx.clock.now();
        let view = View { namespace: &namespace, findings: &findings, remains: &remains, now };
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        let done = executor.run(plan).await;
        match plan::after_attempt(&namespace, 1, &done.outcome)? {
            AfterAttempt::End => done.result(),
            AfterAttempt::Again => self.finalize_again(&namespace).await,
        }
    }

    /// Deletes all content, in the order that `content.rs` says.
    async fn empty(
        &self,
        key: &Key,
        deleted_at: Timestamp,
        discovery: &Discovery,
        pods_first: bool,
    ) -> Vec<(Collection, Remains)> {
        let executor = self.cx.executor(key).without_barrier();
        let emptying =
            Emptying { executor, cx: &self.cx, key, deleted_at, interruptions: AtomicU32::default() };
        let (first, second) = stages(collections(discovery), pods_first);
        let mut all = emptying.empty_all(first).await;
        if is_second_due(all.iter().map(|emptied| &emptied.remains)) {
            all.extend(emptying.empty_all(second).await);
            all = emptying.confirm(all).await;
        }
        all.into_iter().map(|emptied| (emptied.collection, emptied.remains)).collect()
    }

    async fn read(&self, key: &Key) -> Result<Namespace, SyncError> {
        self.cx.client.get::<Namespace>(key).await.map_err(SyncError::api(format!("reading namespace {key}")))
    }

    /// Finalizes a namespace that has changed since it was read.
    async fn finalize_again(&self, changed: &Namespace) -> Result<Next, SyncError> {
        let key = changed.metadata.key();
        let mut attempt = 1;
        loop {
            attempt += 1;
            let finalize = plan::finalize_again(changed, &self.read(&key).await?);
            let finalize = finalize.ok_or_else(|| plan::not_finalized(changed))?;
            // Not the executor of the plan, which would set the version that its last write returned.
            let outcome = self.cx.executor(&key).without_barrier().perform([finalize]).await;
            if plan::after_attempt(changed, attempt, &outcome)? == AfterAttempt::End {
                return outcome.result().map(|()| Next::Settled);
            }
        }
    }
}
