//! The shell: check the cache, confirm with the server, plan, execute. Live reads decide: whether an API server is gone,
//! and what the entries are, the caches may show too late.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use flyball_api::{Key, Lease, Resource, StorageVersion};
use flyball_cache::Informer;
use flyball_client::ListParams;
use flyball_runtime::{Context, Next, Reconcile, SyncError, WorkKey};
use serde_json::Value;

use super::NAMESPACE;
use super::plan::{View, is_gone, plan, servers};

/// The lease of an API server, which is gone.
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

/// An API server is gone: its entries in all StorageVersions are removed.
impl Reconcile<GoneServer> for Controller {
    async fn sync(&self, GoneServer(lease): &GoneServer) -> Result<Next, SyncError> {
        let gone = self.gone(vec![lease.name.to_string()]).await?;
        if gone.is_empty() {
            return Ok(Next::Settled);
        }
        let all = self.cx.client.list_as::<Value>(&StorageVersion::TYPE, None, &ListParams::default()).await;
        let versions = all.map_err(SyncError::api("listing storage versions"))?.items;
        let plan = plan(&View { versions: &versions, gone: &gone, now: self.cx.clock.now() });
        self.cx.executor(lease).without_barrier().execute(plan).await
    }
}

/// A StorageVersion was created or has changed: entries of API servers that do not exist are removed.
impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(known) = self.versions.store().get(key) else { return Ok(Next::Settled) };
        let is_cached = |name: &str| self.leases.store().get(&Key::new(NAMESPACE, name)).is_some();
        if known.status.storage_versions.iter().all(|entry| is_cached(&entry.api_server_id)) {
            return Ok(Next::Settled);
        }
        let live = self.cx.find_dynamic(&StorageVersion::TYPE, key).await?;
        let Some(live) = live else { return Ok(Next::Settled) };
        let gone = self.gone(servers(&live)).await?;
        let plan = plan(&View { versions: &[live], gone: &gone, now: self.cx.clock.now() });
        self.cx.executor(key).execute(plan).await
    }
}

impl Controller {
    /// Those of the API servers that have no lease.
    async fn gone(&self, servers: Vec<String>) -> Result<BTreeSet<String>, SyncError> {
        let mut gone = BTreeSet::new();
        for server in servers {
            let lease = self.cx.client.get::<Lease>(&Key::new(NAMESPACE, server.as_str())).await;
            let doing = || format!("reading the lease of API server {server}");
            if is_gone(&server, lease).map_err(|error| SyncError::api(doing())(error))? {
                gone.insert(server);
            }
        }
        Ok(gone)
    }
}
