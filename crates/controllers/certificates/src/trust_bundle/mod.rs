//! Publishes the CA of the API server as a ClusterTrustBundle.
//!
//! - **Promise**: the signer `kubernetes.io/kube-apiserver-serving` has exactly one bundle, which is named after its
//!   content.
//! - **Watches** the ClusterTrustBundles of that signer. **Writes**: creates, updates and deletes these.
//! - Upstream: `pkg/controller/certificates/clustertrustbundlepublisher`. It uses v1beta1 if that is served, else
//!   v1alpha1. If neither is served, it does nothing and logs that.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_runtime::{Context, StartError, Tasks};
use x509_parser::pem::Pem;

pub const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let bundle = bundle(&cx)?;
    let queue = tasks.queue("ca_cert_publisher_cluster_trust_bundles");
    let controller = Arc::new(sync::Controller::new(cx, bundle));
    tasks.prepare({
        let (controller, queue) = (controller.clone(), queue.clone());
        async move { controller.follow(queue).await }
    });
    tasks.workers(&queue, 1, controller);
    Ok(())
}

/// The bundle from `--root-ca-file`, or else the CA that this process itself verifies the API server with.
fn bundle(cx: &Context) -> Result<Arc<str>, StartError> {
    let file = cx.config.sa_controller.root_ca_file.as_str();
    if file.is_empty() {
        let none = "--root-ca-file is empty and the kubeconfig names no certificate authority";
        return cx.server_ca.clone().ok_or_else(|| StartError::NotNeeded(none.to_owned()));
    }
    let misconfigured =
        |problem: String| StartError::Misconfigured(format!("--root-ca-file {file}: {problem}"));
    let text = std::fs::read_to_string(file).map_err(|error| misconfigured(error.to_string()))?;
    let is_certificate = |block: Result<Pem, _>| block.is_ok_and(|block| block.parse_x509().is_ok());
    if !Pem::iter_from_buffer(text.as_bytes()).any(is_certificate) {
        return Err(misconfigured("it holds no certificate in PEM form".to_owned()));
    }
    Ok(text.into())
}
