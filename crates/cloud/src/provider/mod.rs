//! The interface of a cloud: machines, load balancers and routes. Each is optional.
//!
//! A vendor implements [`Instances`], [`LoadBalancers`] and [`Routes`] as far as the cloud supports them, puts them into a
//! [`Cloud`], and has a [`Provider`] that opens one. Controllers that need a part that is missing are not started.

mod balancers;
mod erased;
mod error;
mod instances;
mod routes;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use flyball_manager::Surroundings;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::webhook::Webhook;

pub use balancers::{LoadBalancers, default_name};
pub(crate) use erased::{AnyInstances, AnyLoadBalancers, AnyRoutes};
pub use error::CloudError;
pub use instances::{Instances, Metadata};
pub use routes::{Route, Routes};

/// A kind of cloud, by its name in `--cloud-provider`.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// The name, also in front of provider IDs: `name://machine`.
    pub name: &'static str,
    /// Opens a cloud of this kind, given the file of `--cloud-config` if there is one. An error should name what is
    /// wrong in the file and what would be right.
    pub open: fn(config: Option<&Path>) -> Result<Cloud, OpenError>,
}

/// Why a cloud cannot be opened.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

type Begin = Arc<dyn Fn(Surroundings) -> BoxFuture<'static, ()> + Send + Sync>;

/// An opened cloud and its parts. Clones are cheap and share the same parts.
///
/// ```
/// use flyball_api::Node;
/// use flyball_cloud::{Cloud, CloudError, Instances, Metadata};
///
/// struct Machines;
///
/// impl Instances for Machines {
///     async fn exists(&self, node: &Node) -> Result<bool, CloudError> {
///         Ok(node.spec.provider_id.starts_with("acme://"))
///     }
///     async fn is_shut_down(&self, _: &Node) -> Result<bool, CloudError> {
///         Err(CloudError::NotImplemented)
///     }
///     async fn metadata(&self, node: &Node) -> Result<Option<Metadata>, CloudError> {
///         let provider_id = format!("acme://{}", node.metadata.name).into();
///         Ok(Some(Metadata { provider_id, zone: "north-1".into(), ..Metadata::default() }))
///     }
/// }
///
/// let cloud = Cloud::new("acme").with_instances(Machines);
/// assert!(cloud.has_instances() && !cloud.has_routes());
/// ```
#[derive(Clone)]
pub struct Cloud {
    name: &'static str,
    is_tagged: bool,
    begin: Option<Begin>,
    pub(crate) instances: Option<Arc<dyn AnyInstances>>,
    pub(crate) load_balancers: Option<Arc<dyn AnyLoadBalancers>>,
    pub(crate) routes: Option<Arc<dyn AnyRoutes>>,
    pub(crate) webhooks: Vec<Webhook>,
}

impl Cloud {
    /// A cloud of the provider `name` without any parts.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            is_tagged: true,
            begin: None,
            instances: None,
            load_balancers: None,
            routes: None,
            webhooks: vec![],
        }
    }

    pub fn with_instances(self, instances: impl Instances) -> Self {
        Self { instances: Some(Arc::new(instances)), ..self }
    }

    pub fn with_load_balancers(self, load_balancers: impl LoadBalancers) -> Self {
        Self { load_balancers: Some(Arc::new(load_balancers)), ..self }
    }

    pub fn with_routes(self, routes: impl Routes) -> Self {
        Self { routes: Some(Arc::new(routes)), ..self }
    }

    /// Adds an admission webhook. It is served if `--webhooks` names it and the feature gate
    /// `CloudControllerManagerWebhook` is on.
    pub fn with_webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Marks a cloud whose resources do not show which cluster they belong to. A manager does not start in it unless
    /// `--allow-untagged-cloud` is given.
    pub fn untagged(self) -> Self {
        Self { is_tagged: false, ..self }
    }

    /// Runs `begin` as soon as this process leads, before its controllers start: for example to fill a cache or to start a
    /// loop.
    pub fn on_begin<F: Future<Output = ()> + Send + 'static>(
        self,
        begin: impl Fn(Surroundings) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { begin: Some(Arc::new(move |surroundings| begin(surroundings).boxed())), ..self }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether resources show which cluster they belong to.
    pub fn is_tagged(&self) -> bool {
        self.is_tagged
    }

    pub fn has_instances(&self) -> bool {
        self.instances.is_some()
    }

    pub fn has_load_balancers(&self) -> bool {
        self.load_balancers.is_some()
    }

    pub fn has_routes(&self) -> bool {
        self.routes.is_some()
    }

    /// Runs what was given to [`on_begin`](Self::on_begin).
    pub async fn begin(&self, surroundings: Surroundings) {
        if let Some(begin) = &self.begin {
            begin(surroundings).await;
        }
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cloud")
            .field("name", &self.name)
            .field("instances", &self.has_instances())
            .field("load_balancers", &self.has_load_balancers())
            .field("routes", &self.has_routes())
            .finish_non_exhaustive()
    }
}
