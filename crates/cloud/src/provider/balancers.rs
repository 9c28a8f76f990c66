//! Load balancers.

use std::future::Future;
use std::sync::Arc;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Node, Service};

use super::CloudError;

/// The longest name that all clouds take.
const LONGEST_NAME: usize = 32;

/// The load balancers of a cloud, one for each Service that wants one. `cluster` is what `--cluster-name` says.
///
/// A cloud whose load balancers are made by somebody else answers [`CloudError::ImplementedElsewhere`] to `ensure` and
/// `update`; the finalizer of the Service is looked after in any case.
pub trait LoadBalancers: Send + Sync + 'static {
    /// What the load balancer of a Service is called in this cloud.
    fn name(&self, _cluster: &str, service: &Service) -> String {
        default_name(service)
    }

    /// Where the load balancer of a Service is reached; `None` if there is none.
    fn get(
        &self,
        cluster: &str,
        service: &Service,
    ) -> impl Future<Output = Result<Option<LoadBalancerStatus>, CloudError>> + Send;

    /// Makes the load balancer, or makes it fit the Service and the nodes. [`CloudError::RetryAfter`] is the way to
    /// say that it is not ready yet.
    fn ensure(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<LoadBalancerStatus, CloudError>> + Send;

    /// Points the load balancer to other nodes; nothing else about it has changed.
    fn update(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Deletes the load balancer and all that belongs to it. Succeeds if there is nothing left.
    fn delete(&self, cluster: &str, service: &Service)
    -> impl Future<Output = Result<(), CloudError>> + Send;
}

/// The traditional name: unique, and of a form that every cloud takes.
pub fn default_name(service: &Service) -> String {
    let uid = service.metadata.uid.to_smol_str();
    let letters = "a".chars().chain(uid.chars().filter(|c| *c != '-'));
    letters.take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_is_cut_to_what_every_cloud_takes() {
        #[rustfmt::skip]
        let table = [
            ("7f1f7a3e-86a5-4a38-8b32-0123456789ab", "a7f1f7a3e86a54a388b320123456789a"),
            ("short",                                "ashort"),
            ("",                                     "a"),
        ];
        for (uid, want) in table {
            let service: Service =
                serde_json::from_value(serde_json::json!({"metadata": {"uid": uid}})).unwrap();
            assert_eq!(default_name(&service), want);
        }
    }
}
