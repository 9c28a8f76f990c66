//! Publishes the certificates by which the API server can be verified as a ClusterTrustBundle.
//!
//! - **Promise**: of the signer `kubernetes.io/kube-apiserver-serving` there is one bundle, named after its content, and
//!   no other.
//! - **Watches** the ClusterTrustBundles of that signer. **Writes**: creates, updates and deletes these.
//! - Upstream: `pkg/controller/certificates/clustertrustbundlepublisher`. What is served decides: v1beta1, else v1alpha1,
//!   else nothing is done, and the log says so.

pub mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flyball_runtime::{Context, StartError, Tasks};
use x509_parser::pem::Pem;

/// The name under which the controller runs.
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

/// The bundle: from `--root-ca-file`, or else what we ourselves trust the API server by.
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
