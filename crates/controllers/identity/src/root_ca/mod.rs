//! Publishes the CA of the API server to every namespace, so that pods can verify it.
//!
//! - **Promise**: every namespace has a ConfigMap `kube-root-ca.crt` with exactly the CA bundle and a description.
//! - **Watches** Namespaces, and ConfigMaps of that name. **Writes** these ConfigMaps.
//! - Upstream: `pkg/controller/certificates/rootcacertpublisher`. What differs: upstream caches all ConfigMaps.

pub mod plan;
mod sync;
pub mod triggers;

use std::sync::Arc;

use flyball_api::{ConfigMap, Namespace};
use flyball_cache::Filter;
use flyball_runtime::{Context, StartError, Tasks};

pub const NAME: &str = "root-ca-certificate-publisher-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let bundle = bundle(&cx)?;
    let queue = tasks.queue("root_ca_cert_publisher");
    let only = Filter { fields: Some(format!("metadata.name={}", plan::CONFIG_MAP)), ..Filter::default() };
    let (namespaces, published) = (cx.informer::<Namespace>(), cx.informers.filtered::<ConfigMap>(only));
    tasks.feed(&namespaces, &queue, triggers::namespace_changed);
    tasks.feed(&published, &queue, triggers::published_changed);
    tasks.workers(&queue, 1, Arc::new(sync::Controller { cx, published, bundle }));
    Ok(())
}

/// The bundle from `--root-ca-file`, or else the CA that this process itself verifies the API server with.
fn bundle(cx: &Context) -> Result<Arc<str>, StartError> {
    let file = cx.config.sa_controller.root_ca_file.as_str();
    if file.is_empty() {
        let ours = cx.server_ca.clone();
        return ours.ok_or_else(|| {
            StartError::Misconfigured(
                "--root-ca-file is empty and the kubeconfig names no certificate authority".into(),
            )
        });
    }
    let read = std::fs::read_to_string(file);
    read.map(Arc::from).map_err(|error| StartError::Misconfigured(format!("--root-ca-file {file}: {error}")))
}
