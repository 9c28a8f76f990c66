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

use flyball_common::server_ca;
use flyball_runtime::{Context, StartError, Tasks};

pub const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let bundle = server_ca::bundle(&cx)?;
    if bundle.is_empty() {
        return Err(StartError::NotNeeded(
            "there is no CA to publish (--root-ca-file, or certificate-authority-data in the kubeconfig)"
                .to_owned(),
        ));
    }
    let queue = tasks.queue("ca_cert_publisher_cluster_trust_bundles");
    let controller = Arc::new(sync::Controller::new(cx, bundle));
    tasks.prepare({
        let (controller, queue) = (controller.clone(), queue.clone());
        async move { controller.follow(queue).await }
    });
    tasks.workers(&queue, 1, controller);
    Ok(())
}
