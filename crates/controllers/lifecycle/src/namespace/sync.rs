//! The shell: read the namespace, delete its content, plan, execute. Live reads decide: no cache holds all content of a
//! namespace, and with a stale cache a namespace could be finalized that is not empty.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use flyball_api::{Key, Namespace, Timestamp};
use flyball_cache::Informer;
use flyball_client::{Discovery, Error};
use flyball_runtime::gates::Gate;
use flyball_runtime::{Chain, Context, ErrorKinds, Next, Reconcile, SyncError};

use super::content::{Collection, Remains, collections};
use super::empty::Emptying;
use super::invariants;
use super::plan::{self, View, plan};
use super::status::Findings;

/// How many times a namespace is finalized that other clients change at the same time.
const ATTEMPTS: u32 = 5;

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
        let remains = match &discovery {
            Ok(discovery) => self.empty(key, deleted_at, discovery).await,
            Err(_) => vec![],
        };
        let findings = Findings::of(discovery.as_ref(), &remains);
        let now = self.cx.clock.now();
        let view = View { namespace: &namespace, findings: &findings, remains: &remains, now };
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        let next = plan.next();
        executor.record_waiting(plan.waiting);
        let outcome = executor.perform(plan.effects).await;
        match outcome.failure() {
            Some(failure) if failure.is_one_of(ErrorKinds::CONFLICT) => self.finalize_again(&namespace).await,
            _ => outcome.result().map(|()| next),
        }
    }

    /// Deletes all content. Pods are deleted first, and nothing else while pods remain: they may need other objects of the namespace
    /// to terminate. Without the gate `OrderedNamespaceDeletion`, there is no order.
    async fn empty(
        &self,
        key: &Key,
        deleted_at: Timestamp,
        discovery: &Discovery,
    ) -> Vec<(Collection, Remains)> {
        let executor = self.cx.executor(key).without_barrier();
        let emptying =
            Emptying { executor, cx: &self.cx, key, deleted_at, interruptions: AtomicU32::default() };
        let has_order = self.cx.gates.enabled(Gate::OrderedNamespaceDeletion);
        let (pods, others): (Vec<_>, Vec<_>) =
            collections(discovery).into_iter().partition(|collection| has_order && collection.is_pods());
        let mut all = emptying.empty_all(pods).await;
        if all.iter().all(|emptied| emptied.remains.objects == 0) {
            all.extend(emptying.empty_all(others).await);
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
        for _ in 1..ATTEMPTS {
            let namespace = self.read(&key).await?;
            if namespace.metadata.uid != changed.metadata.uid {
                // It is another namespace of that name.
                return Ok(Next::Settled);
            }
            let executor = self.cx.executor(&key).without_barrier();
            let outcome = executor.perform([plan::finalize(&namespace)]).await;
            if !outcome.failure().is_some_and(|failure| failure.is_one_of(ErrorKinds::CONFLICT)) {
                return outcome.result().map(|()| Next::Settled);
            }
        }
        Err(SyncError::other(format!("finalizing namespace {key}"), "it changed at every attempt").expected())
    }
}
