//! The cluster's own CAs. The API server publishes them in a ConfigMap, which is watched.

use std::{sync::Arc, time::Duration};

use flyball_api::{Key, ResourceType};
use flyball_client::{Client, Error, EventKind, WatchParams};
use futures::StreamExt;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    certs,
    front_proxy::{Proxies, ProxyHeaders},
    subject::{Authority, authority},
};

const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The CAs for clients and front proxies. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct ClusterCa {
    trusted: Arc<RwLock<Trusted>>,
}

#[derive(Debug, Default)]
struct Trusted {
    clients: Option<Authority>,
    proxies: Option<Authority>,
    /// `None` until they could be read: no proxy is trusted.
    headers: Option<ProxyHeaders>,
}

#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error("cannot read ConfigMap {NAMESPACE}/{NAME}")]
    Request(#[from] Error),
    /// Its contents are invalid.
    #[error("ConfigMap {NAMESPACE}/{NAME}: {0}")]
    Content(String),
}

impl ClusterCa {
    /// Reads the ConfigMap once. It is not an error if it does not exist. [`follow`](Self::follow) watches it.
    pub async fn read(&self, client: &Client) -> Result<(), LookupError> {
        let map = match client.get_dynamic(&CONFIG_MAPS, &Key::new(NAMESPACE, NAME)).await {
            Ok(map) => map,
            Err(error) if error.is_not_found() => {
                tracing::warn!(
                    namespace = NAMESPACE,
                    name = NAME,
                    "there is no such ConfigMap yet: no client certificate is believed until there is"
                );
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.apply(&map).map_err(|problems| LookupError::Content(problems.join("; ")))
    }

    /// Watches the ConfigMap forever.
    pub async fn follow(self, client: Client) {
        let mut pause = FIRST_PAUSE;
        loop {
            let params = WatchParams {
                namespace: Some(NAMESPACE.into()),
                field_selector: Some(format!("metadata.name={NAME}").into()),
                ..WatchParams::default()
            };
            // Without a version, a watch begins with the current object.
            if let Ok(mut events) = client.watch(&CONFIG_MAPS, &params).await {
                while let Some(Ok(event)) = events.next().await {
                    pause = FIRST_PAUSE;
                    if matches!(event.kind, EventKind::Added | EventKind::Modified)
                        && let Ok(map) = event.object.decode_as::<Value>()
                    {
                        self.take_over(&map);
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
        let trusted = self.trusted.read();
        let (authority, headers) = (trusted.proxies.clone()?, trusted.headers.clone()?);
        Some(Proxies { authority, headers })
    }

    fn take_over(&self, map: &Value) {
        for problem in self.apply(map).err().unwrap_or_default() {
            tracing::warn!(
                problem,
                namespace = NAMESPACE,
                name = NAME,
                "the ConfigMap cannot be used; keeping the old values"
            );
        }
    }

    /// Applies the values that can be parsed. For others the old value stays; without an old value, no client is trusted.
    pub(super) fn apply(&self, map: &Value) -> Result<(), Vec<String>> {
        let data = &map["data"];
        let mut problems = vec![];
        let mut bundle = |key: &str| -> Option<Authority> {
            let pem = data[key].as_str().filter(|pem| !pem.is_empty())?;
            certs::roots(pem.as_bytes(), key)
                .and_then(authority)
                .map_err(|problem| problems.push(problem))
                .ok()
        };
        let (clients, proxies) = (bundle("client-ca-file"), bundle("requestheader-client-ca-file"));
        let headers = proxy_headers(data).map_err(|problem| problems.push(problem)).ok();
        let mut trusted = self.trusted.write();
        trusted.clients = clients.or(trusted.clients.take());
        trusted.proxies = proxies.or(trusted.proxies.take());
        trusted.headers = headers.or(trusted.headers.take());
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// Strict: an invalid list must not count as an empty one, which allows every name.
fn proxy_headers(data: &Value) -> Result<ProxyHeaders, String> {
    let list = |key: &str| -> Result<Vec<String>, String> {
        match &data[key] {
            Value::Null => Ok(vec![]),
            Value::String(text) if text.is_empty() => Ok(vec![]),
            // `null` is an empty list, as in Go.
            Value::String(text) => serde_json::from_str::<Option<Vec<String>>>(text)
                .map(Option::unwrap_or_default)
                .map_err(|error| format!("{key} is not a list of strings in JSON: {error}")),
            _ => Err(format!("{key} is not text")),
        }
    };
    Ok(ProxyHeaders {
        allowed_names: list("requestheader-allowed-names")?,
        username: list("requestheader-username-headers")?,
        uid: list("requestheader-uid-headers")?,
        group: list("requestheader-group-headers")?,
        extra_prefixes: list("requestheader-extra-headers-prefix")?,
    })
}
