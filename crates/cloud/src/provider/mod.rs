//! The interface of a cloud: machines, load balancers and routes. Each is optional.
//!
//! A vendor implements [`Instances`], [`LoadBalancers`] and [`Routes`] as far as the cloud supports them, puts them into a
//! [`Cloud`], and has a [`Provider`] that opens one. Controllers that need a part that is missing are not started.

mod balancers;
mod erased;
mod error;
mod instances;
mod opening;
mod routes;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use flyball_manager::flags::Flag;
use flyball_manager::{Ending, LeaderContext};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::webhook::Webhook;

pub use balancers::{LoadBalancers, default_name};
pub(crate) use erased::{AnyInstances, AnyLoadBalancers, AnyRoutes};
pub use error::CloudError;
pub use instances::{Instances, Metadata};
pub use opening::Opening;
pub use routes::{Route, Routes};

/// A kind of cloud, by its name in `--cloud-provider`.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// The name, also in front of provider IDs: `name://machine`.
    pub name: &'static str,
    /// The provider's own flags. [`Opening::flags`] has their values.
    pub flags: &'static [Flag],
    /// Opens a cloud of this kind. The process does not serve its port before it is open, so this should not wait for a slow
    /// cloud. An error should name what is wrong in the flags or in the file, and what would be right.
    pub open: Open,
}

/// See [`Provider::open`]; for an `async fn open`, `|opening| Box::pin(open(opening))`.
pub type Open = fn(Opening) -> BoxFuture<'static, Result<Cloud, OpenError>>;

impl Provider {
    pub const fn new(name: &'static str, open: Open) -> Self {
        Self { name, flags: &[], open }
    }

    /// The same with flags of its own, under a heading of their own in `--help`.
    pub const fn with_flags(self, flags: &'static [Flag]) -> Self {
        Self { flags, ..self }
    }
}

/// Why a cloud cannot be opened.
pub type OpenError = Box<dyn std::error::Error + Send + Sync>;

type Begin = Arc<dyn Fn(LeaderContext) -> BoxFuture<'static, ()> + Send + Sync>;
type End = Arc<dyn Fn(Ending) -> BoxFuture<'static, ()> + Send + Sync>;

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
    end: Option<End>,
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
            end: None,
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
        begin: impl Fn(LeaderContext) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { begin: Some(Arc::new(move |context| begin(context).boxed())), ..self }
    }

    /// Runs `end` when this process stops leading or exits, if it has led: for example to withdraw addresses that it announces.
    /// After a lost lease, calls of controllers may still arrive: refuse them from then on. The process ends when `end` has
    /// completed, or before another process may lead (`--leader-elect-lease-duration` less `--leader-elect-renew-deadline`), or
    /// after the time for a shutdown.
    ///
    /// A process that is killed does not get so far. What must not outlive it needs a lifetime of its own.
    pub fn on_end<F: Future<Output = ()> + Send + 'static>(
        self,
        end: impl Fn(Ending) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { end: Some(Arc::new(move |why| end(why).boxed())), ..self }
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
    pub async fn begin(&self, context: LeaderContext) {
        if let Some(begin) = &self.begin {
            begin(context).await;
        }
    }

    /// Runs what was given to [`on_end`](Self::on_end).
    pub async fn end(&self, why: Ending) {
        if let Some(end) = &self.end {
            end(why).await;
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
