//! The shell: look up, plan, create.

use std::sync::Arc;

use flyball_api::{Key, Namespace, ServiceAccount};
use flyball_cache::Informer;
use flyball_common::pods::is_namespace_going;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::json;

use super::plan::plan;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) namespaces: Arc<Informer<Namespace>>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(namespace) = self.namespaces.store().get(key) else { return Ok(Next::Settled) };
        let account = |name: &str| Key::new(key.name.as_str(), name);
        for name in plan(&namespace, |name| self.accounts.store().get(&account(name)).is_some()) {
            let body = json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": key.name},
            });
            let why = "every namespace has this account";
            let made = self.cx.writer(key).create::<ServiceAccount>(&key.name, &body, why).await;
            match made {
                Ok(_) => {}
                Err(error) if error.is_already_exists() || is_namespace_going(&error) => {}
                Err(error) => {
                    return Err(SyncError::api(format!("creating service account {}", account(name)))(error));
                }
            }
        }
        Ok(Next::Settled)
    }
}
