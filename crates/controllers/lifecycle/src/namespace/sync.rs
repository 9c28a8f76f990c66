//! The shell: read the namespace live, empty it, say what is left, let it go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::condition::Condition;
use flyball_api::namespace::NamespaceStatus;
use flyball_api::{Key, Namespace, Object, Resource, Timestamp, manifest_with_status};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::FINALIZER;
use super::empty::Doomed;
use super::plan::{Remains, collections, look_again_after};
use super::status::Findings;

const AT_ONCE: usize = 8;
/// How often the finalizer is removed anew from a namespace that changes meanwhile.
const TRIES: u32 = 5;

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
        let mut namespace = self.read(key).await?;
        let Some(deleted_at) = namespace.metadata.deletion_timestamp else { return Ok(Next::Settled) };
        if !namespace.is_terminating() {
            namespace = self.mark_terminating(namespace).await?;
        }
        if namespace.spec.finalizers.is_empty() {
            return Ok(Next::Settled);
        }
        let (findings, wait) = self.empty(key, deleted_at).await;
        if let Some(conditions) = findings.update(&namespace.status.conditions, self.cx.clock.now()) {
            namespace = self.say(namespace, conditions).await;
        }
        if let Some(failure) = findings.failure() {
            return Err(SyncError::other(format!("emptying namespace {key}"), failure));
        }
        if !wait.is_zero() {
            return Ok(Next::After(look_again_after(wait)));
        }
        self.finalize(namespace).await?;
        Ok(Next::Settled)
    }

    /// Deletes all content; says what was found and how long to wait for what is left.
    async fn empty(&self, key: &Key, deleted_at: Timestamp) -> (Findings, Duration) {
        let mut findings = Findings::default();
        let mut wait = Duration::ZERO;
        let discovery = match self.cx.client.discover().await {
            Ok(discovery) => discovery,
            Err(error) => {
                findings.undiscovered(Chain(&error));
                return (findings, wait);
            }
        };
        findings.discovered(&discovery);
        let doomed = Doomed { cx: &self.cx, key, deleted_at };
        let (pods, others): (Vec<_>, Vec<_>) =
            collections(&discovery).into_iter().partition(|collection| collection.is_pods());
        for collection in &pods {
            let remains = doomed.empty(collection).await;
            findings.failed(&remains);
            wait = wait.max(remains.wait);
            if remains.objects > 0 {
                // Pods may need what else is in the namespace to end well. What remains is told only when all
                // has been looked at, as upstream has it.
                return (findings, wait);
            }
        }
        let emptied = stream::iter(others).map(|collection| {
            let doomed = &doomed;
            async move {
                let remains = doomed.empty(&collection).await;
                (collection.resource, remains)
            }
        });
        let emptied: Vec<(_, Remains)> = emptied.buffered(AT_ONCE).collect().await;
        for (resource, remains) in &emptied {
            findings.failed(remains);
            findings.remain(resource, remains);
            wait = wait.max(remains.wait);
        }
        (findings, wait)
    }

    async fn read(&self, key: &Key) -> Result<Namespace, SyncError> {
        self.cx.client.get::<Namespace>(key).await.map_err(SyncError::api(format!("reading namespace {key}")))
    }

    async fn mark_terminating(&self, namespace: Namespace) -> Result<Namespace, SyncError> {
        let status = NamespaceStatus { phase: "Terminating".into(), ..namespace.status.clone() };
        let (key, body) = (namespace.key(), manifest_with_status(&namespace, &status));
        let writer = self.cx.writer(&key).unawaited();
        let written = writer.update(&key, Some("status"), &body, "its deletion was asked for").await;
        written.map_err(SyncError::api(format!("marking namespace {key} as terminating")))
    }

    /// Writes the conditions. If that fails, the deletion goes on: the next round writes them again.
    async fn say(&self, namespace: Namespace, conditions: Vec<Condition>) -> Namespace {
        let status = NamespaceStatus { conditions, ..namespace.status.clone() };
        let (key, body) = (namespace.key(), manifest_with_status(&namespace, &status));
        let writer = self.cx.writer(&key).unawaited();
        match writer.update(&key, Some("status"), &body, "what is left in it has changed").await {
            Ok(written) => written,
            Err(error) => {
                tracing::warn!(namespace = %key, error = %Chain(&error), "cannot write the conditions of a namespace");
                namespace
            }
        }
    }

    /// Removes our finalizer; if others change the namespace meanwhile, from what they have made of it.
    async fn finalize(&self, mut namespace: Namespace) -> Result<(), SyncError> {
        let (key, uid) = (namespace.key(), namespace.uid().clone());
        let doing = format!("finalizing namespace {key}");
        for _ in 0..TRIES {
            let body = finalized(&namespace);
            let writer = self.cx.writer(&key).unawaited();
            match writer.update::<Namespace>(&key, Some("finalize"), &body, "it is empty").await {
                Err(error) if error.is_conflict() => namespace = self.read(&key).await?,
                done => return done.map(drop).map_err(SyncError::api(doing)),
            }
            if *namespace.uid() != uid {
                // Another one of that name, which has to be emptied first.
                return Ok(());
            }
        }
        Err(SyncError::other(doing, "it keeps changing").expected())
    }
}

/// The namespace without our finalizer.
fn finalized(namespace: &Namespace) -> Value {
    let kind = Namespace::TYPE;
    let others: BTreeSet<_> = namespace.spec.finalizers.iter().filter(|f| *f != FINALIZER).collect();
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": namespace.metadata,
        "spec": {"finalizers": others},
    })
}
