//! Load balancers.

use std::future::Future;
use std::sync::Arc;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Node, Service};

use super::CloudError;

/// The longest name that all clouds accept.
const LONGEST_NAME: usize = 32;

/// The load balancers of a cloud, one for each Service of type LoadBalancer. `cluster` is the value of `--cluster-name`.
///
/// A cloud whose load balancers are managed by another component returns [`CloudError::ImplementedElsewhere`] from `ensure`
/// and `update`; the finalizer of the Service is set and removed in any case.
pub trait LoadBalancers: Send + Sync + 'static {
    /// The name of a Service's load balancer in this cloud.
    fn name(&self, _cluster: &str, service: &Service) -> String {
        default_name(service)
    }

    /// The status of a Service's load balancer; `None` if there is none.
    fn get(
        &self,
        cluster: &str,
        service: &Service,
    ) -> impl Future<Output = Result<Option<LoadBalancerStatus>, CloudError>> + Send;

    /// Creates the load balancer, or updates it to the Service and the nodes. While it is not ready, return
    /// [`CloudError::RetryAfter`].
    fn ensure(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<LoadBalancerStatus, CloudError>> + Send;

    /// Updates only the nodes of the load balancer.
    fn update(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> impl Future<Output = Result<(), CloudError>> + Send;

    /// Deletes the load balancer and everything that belongs to it. Succeeds if there is none.
    fn delete(&self, cluster: &str, service: &Service)
    -> impl Future<Output = Result<(), CloudError>> + Send;
}

/// The default name: unique, and accepted by every cloud.
pub fn default_name(service: &Service) -> String {
    let uid = service.metadata.uid.to_smol_str();
    let letters = "a".chars().chain(uid.chars().filter(|c| *c != '-'));
    letters.take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_is_cut_to_the_length_that_every_cloud_accepts() {
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
