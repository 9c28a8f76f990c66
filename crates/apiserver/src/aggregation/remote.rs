//! One server that an APIService names, and connections to it.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use smol_str::SmolStr;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::server::Inner;
use crate::store::Key;
use crate::webhook::{Tls, dial, resolve};

/// The port of a service that does not name another.
const PORT: u16 = 443;

/// A version of a group that another server serves.
pub(crate) struct Remote {
    /// The name of the APIService.
    pub(crate) name: SmolStr,
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) service: Key,
    pub(super) port: u16,
    /// Whether requests are passed on, by the condition.
    pub(crate) is_available: bool,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    pub(super) spec: Value,
    tls: Arc<std::sync::OnceLock<Tls>>,
}

impl Remote {
    /// Reads an APIService; `None` if this server serves the version itself.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let service = spec.get("service").filter(|service| service.is_object())?;
        let text = |of: &Value, field: &str| SmolStr::from(of[field].as_str().unwrap_or_default());
        let conditions = object["status"]["conditions"].as_array();
        Some(Self {
            name: text(&object["metadata"], "name"),
            group: text(spec, "group"),
            version: text(spec, "version"),
            service: Key { namespace: text(service, "namespace"), name: text(service, "name") },
            port: service["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(PORT),
            is_available: conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Available" && condition["status"] == "True"),
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            spec: spec.clone(),
            tls: Arc::default(),
        })
    }

    /// The same, with the authorities that another state of it has parsed already.
    pub(super) fn with_connection_of(self, old: &Self) -> Self {
        Self { tls: Arc::clone(&old.tls), ..self }
    }

    /// The path of its own discovery.
    pub(super) fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// Host and port of the server now.
    pub(super) fn place(&self, server: &Inner) -> Result<(String, u16), String> {
        resolve(server, &self.service.namespace, &self.service.name, self.port)
    }

    /// Connects as requests are passed on: with the authorities of the APIService, and with the certificate by which the other
    /// server recognises this one.
    pub(super) async fn connect(
        &self,
        server: &Inner,
        place: &(String, u16),
    ) -> Result<TlsStream<TcpStream>, String> {
        let tls = self.tls.get_or_init(|| {
            let own = server.options.front_proxy.as_ref().map(|proxy| proxy.client.clone());
            let bundle = self.spec["caBundle"].as_str().unwrap_or_default();
            let authorities = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
            match self.spec["insecureSkipTLSVerify"] == true {
                true => Tls::unverified(),
                false => Tls::new(authorities),
            }
            .presenting(own)
        });
        let stream = dial(&place.0, place.1).await?;
        let Key { namespace, name } = &self.service;
        tls.handshake(stream, &format!("{name}.{namespace}.svc")).await
    }
}
