//! Publishes the CA of the API server to every namespace, so that pods can verify it.
//!
//! - **Promise**: every namespace has a ConfigMap `kube-root-ca.crt` with exactly the CA bundle and a description.
//! - **Watches** Namespaces, and ConfigMaps of that name. **Writes** these ConfigMaps.
//! - Upstream: `pkg/controller/certificates/rootcacertpublisher`. What differs: upstream caches all ConfigMaps.
//!
//! Without `--root-ca-file`, the CA is the kubeconfig's `certificate-authority-data`, byte for byte. If the kubeconfig names a
//! file instead, or the process uses its service account, then as in upstream the bundle is empty, so that replicas
//! of both do not replace each other's bundle.

pub mod plan;
mod sync;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{ConfigMap, Namespace};
use flyball_cache::Filter;
use flyball_common::server_ca;
use flyball_runtime::{Context, StartError, Tasks};

pub const NAME: &str = "root-ca-certificate-publisher-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let bundle = server_ca::bundle(&cx)?;
    if bundle.is_empty() {
        tracing::warn!(
            "without --root-ca-file or a CA inside the kubeconfig, kube-root-ca.crt is empty in every namespace"
        );
    }
    let queue = tasks.queue("root_ca_cert_publisher");
    let only = Filter { fields: Some(format!("metadata.name={}", plan::CONFIG_MAP)), ..Filter::default() };
    let (namespaces, published) = (cx.informer::<Namespace>(), cx.informers.filtered::<ConfigMap>(only));
    tasks.feed(&namespaces, &queue, triggers::namespace_changed);
    tasks.feed(&published, &queue, triggers::published_changed);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, published, bundle }));
    Ok(())
}
