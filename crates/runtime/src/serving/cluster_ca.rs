//! The cluster's own authorities: the API server publishes them in a ConfigMap, and we follow it.

use std::{sync::Arc, time::Duration};

use flyball_api::{Key, ResourceType};
use flyball_client::{Client, Error, EventKind, WatchParams};
use futures::StreamExt;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::sleep;

use super::{
    authn::{Authority, Proxies, authority},
    certs,
};

const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whom the cluster trusts. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct ClusterCa {
    trusted: Arc<RwLock<Trusted>>,
}

#[derive(Debug, Default)]
struct Trusted {
    clients: Option<Authority>,
    proxies: Option<Proxies>,
}

impl ClusterCa {
    /// Reads the ConfigMap once. Call [`follow`](Self::follow) to hear of changes.
    pub async fn read(&self, client: &Client) -> Result<(), Error> {
        let map = client.get_dynamic(&CONFIG_MAPS, &Key::new(NAMESPACE, NAME)).await?;
        self.apply(&map);
        Ok(())
    }

    /// Follows the ConfigMap for ever.
    pub async fn follow(self, client: Client) {
        let mut pause = FIRST_PAUSE;
        loop {
            let params = WatchParams {
                namespace: Some(NAMESPACE.into()),
                field_selector: Some(format!("metadata.name={NAME}").into()),
                ..WatchParams::default()
            };
            // Without a version, a watch begins with the object as it is.
            if let Ok(mut events) = client.watch(&CONFIG_MAPS, &params).await {
                while let Some(Ok(event)) = events.next().await {
                    pause = FIRST_PAUSE;
                    if matches!(event.kind, EventKind::Added | EventKind::Modified)
                        && let Ok(map) = serde_json::from_slice::<Value>(&event.object)
                    {
                        self.apply(&map);
                    }
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(super) fn clients(&self) -> Option<Authority> {
        self.trusted.read().clients.clone()
    }

    pub(super) fn proxies(&self) -> Option<Proxies> {
        self.trusted.read().proxies.clone()
    }

    /// Takes over what can be read; what cannot is reported and leaves the old in force.
    pub(super) fn apply(&self, map: &Value) {
        let data = &map["data"];
        let bundle = |key: &str| -> Option<Authority> {
            let pem = data[key].as_str().filter(|pem| !pem.is_empty())?;
            let name = format!("{key} of ConfigMap {NAMESPACE}/{NAME}");
            match certs::roots(pem.as_bytes(), &name).and_then(authority) {
                Ok(authority) => Some(authority),
                Err(problem) => {
                    tracing::warn!(problem, "keeping the authorities known before");
                    None
                }
            }
        };
        let list = |key: &str| -> Vec<String> {
            data[key].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let clients = bundle("client-ca-file");
        let proxies = bundle("requestheader-client-ca-file").map(|authority| Proxies {
            authority,
            allowed_names: list("requestheader-allowed-names"),
            username_headers: list("requestheader-username-headers"),
            uid_headers: list("requestheader-uid-headers"),
            group_headers: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        });
        let mut trusted = self.trusted.write();
        trusted.clients = clients.or(trusted.clients.take());
        trusted.proxies = proxies.or(trusted.proxies.take());
    }
}
