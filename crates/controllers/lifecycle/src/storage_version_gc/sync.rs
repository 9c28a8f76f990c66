//! The shell: suspect by the cache, confirm with the server, write.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use flyball_api::{Key, Lease, Resource, StorageVersion};
use flyball_cache::Informer;
use flyball_client::{DeleteOptions, ListParams};
use flyball_runtime::{Context, Next, Reconcile, SyncError, WorkKey};
use serde_json::Value;

use super::plan::{Left, servers, without};
use super::{IDENTITY, NAMESPACE, SERVER};

/// The lease of a server that is gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GoneServer(pub(super) Key);

impl fmt::Display for GoneServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}", self.0.name)
    }
}

impl WorkKey for GoneServer {
    fn object(&self) -> &Key {
        &self.0
    }
}

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) leases: Arc<Informer<Lease>>,
    pub(super) versions: Arc<Informer<StorageVersion>>,
}

/// A server is gone: nothing that it said counts any more.
impl Reconcile<GoneServer> for Controller {
    async fn sync(&self, gone: &GoneServer) -> Result<Next, SyncError> {
        let name = gone.0.name.as_str();
        if self.is_living(name).await? {
            return Ok(Next::Settled);
        }
        let all = self.cx.client.list_as::<Value>(&StorageVersion::TYPE, None, &ListParams::default()).await;
        let mut failure = None;
        for version in all.map_err(SyncError::api("listing storage versions"))?.items {
            if let Err(error) = self.clean(version, |server| server == name).await {
                failure = Some(error);
            }
        }
        failure.map_or(Ok(Next::Settled), Err)
    }
}

/// A StorageVersion came or changed: does it speak of servers that are not there?
impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(known) = self.versions.store().get(key) else { return Ok(Next::Settled) };
        let is_cached = |name: &str| self.leases.store().get(&Key::new(NAMESPACE, name)).is_some();
        if known.status.storage_versions.iter().all(|entry| is_cached(&entry.api_server_id)) {
            return Ok(Next::Settled);
        }
        let live = match self.cx.client.get_dynamic(&StorageVersion::TYPE, key).await {
            Err(error) if error.is_not_found() => return Ok(Next::Settled),
            read => read.map_err(SyncError::api(format!("reading storage version {key}")))?,
        };
        let mut gone = BTreeSet::new();
        for server in servers(&live) {
            if !self.is_living(&server).await? {
                gone.insert(server);
            }
        }
        self.clean(live, |server| gone.contains(server)).await?;
        Ok(Next::Settled)
    }
}

impl Controller {
    async fn is_living(&self, server: &str) -> Result<bool, SyncError> {
        match self.cx.client.get::<Lease>(&Key::new(NAMESPACE, server)).await {
            Ok(lease) => Ok(lease.metadata.labels.get(IDENTITY) == Some(SERVER)),
            Err(error) if error.is_not_found() || server.is_empty() => Ok(false),
            Err(error) => Err(SyncError::api(format!("reading the lease of API server {server}"))(error)),
        }
    }

    async fn clean(&self, version: Value, is_gone: impl Fn(&str) -> bool) -> Result<(), SyncError> {
        let key = Key::cluster(version["metadata"]["name"].as_str().unwrap_or_default());
        // Not if another server has spoken of it since, which upstream does not rule out: that one would say it again
        // only after ten minutes.
        let as_read =
            version["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let writer = self.cx.writer(&key);
        let written = match without(version, is_gone, self.cx.clock.now()) {
            Left::Everything => return Ok(()),
            Left::Some(body) => {
                let why = "a server that spoke of it is gone";
                writer.update_status::<StorageVersion>(&key, &body, why).await.map(drop)
            }
            Left::Nothing => {
                let why = "every server that spoke of it is gone";
                let options = DeleteOptions { resource_version: as_read, ..DeleteOptions::default() };
                writer.delete::<StorageVersion>(&key, options, why).await
            }
        };
        match written {
            Err(error) if error.is_not_found() => Ok(()),
            written => written.map_err(SyncError::api(format!("cleaning storage version {key}"))),
        }
    }
}
