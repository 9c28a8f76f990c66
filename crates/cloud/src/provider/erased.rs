//! The traits of a cloud as trait objects. Every implementation of the plain traits implements these, too.

use std::sync::Arc;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Node, Service};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{CloudError, Instances, LoadBalancers, Metadata, Route, Routes};

type Answer<'a, T> = BoxFuture<'a, Result<T, CloudError>>;

/// [`Instances`] of some kind.
pub(crate) trait AnyInstances: Send + Sync {
    fn exists<'a>(&'a self, node: &'a Node) -> Answer<'a, bool>;
    fn is_shut_down<'a>(&'a self, node: &'a Node) -> Answer<'a, bool>;
    fn metadata<'a>(&'a self, node: &'a Node) -> Answer<'a, Option<Metadata>>;
}

impl<T: Instances> AnyInstances for T {
    fn exists<'a>(&'a self, node: &'a Node) -> Answer<'a, bool> {
        Instances::exists(self, node).boxed()
    }
    fn is_shut_down<'a>(&'a self, node: &'a Node) -> Answer<'a, bool> {
        Instances::is_shut_down(self, node).boxed()
    }
    fn metadata<'a>(&'a self, node: &'a Node) -> Answer<'a, Option<Metadata>> {
        Instances::metadata(self, node).boxed()
    }
}

/// [`LoadBalancers`] of some kind.
pub(crate) trait AnyLoadBalancers: Send + Sync {
    fn name(&self, cluster: &str, service: &Service) -> String;
    fn get<'a>(&'a self, cluster: &'a str, service: &'a Service) -> Answer<'a, Option<LoadBalancerStatus>>;
    fn ensure<'a>(
        &'a self,
        cluster: &'a str,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
    ) -> Answer<'a, LoadBalancerStatus>;
    fn update<'a>(&'a self, cluster: &'a str, service: &'a Service, nodes: &'a [Arc<Node>])
    -> Answer<'a, ()>;
    fn delete<'a>(&'a self, cluster: &'a str, service: &'a Service) -> Answer<'a, ()>;
}

impl<T: LoadBalancers> AnyLoadBalancers for T {
    fn name(&self, cluster: &str, service: &Service) -> String {
        LoadBalancers::name(self, cluster, service)
    }
    fn get<'a>(&'a self, cluster: &'a str, service: &'a Service) -> Answer<'a, Option<LoadBalancerStatus>> {
        LoadBalancers::get(self, cluster, service).boxed()
    }
    fn ensure<'a>(
        &'a self,
        cluster: &'a str,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
    ) -> Answer<'a, LoadBalancerStatus> {
        LoadBalancers::ensure(self, cluster, service, nodes).boxed()
    }
    fn update<'a>(
        &'a self,
        cluster: &'a str,
        service: &'a Service,
        nodes: &'a [Arc<Node>],
    ) -> Answer<'a, ()> {
        LoadBalancers::update(self, cluster, service, nodes).boxed()
    }
    fn delete<'a>(&'a self, cluster: &'a str, service: &'a Service) -> Answer<'a, ()> {
        LoadBalancers::delete(self, cluster, service).boxed()
    }
}

/// [`Routes`] of some kind.
pub(crate) trait AnyRoutes: Send + Sync {
    fn list<'a>(&'a self, cluster: &'a str) -> Answer<'a, Vec<Route>>;
    fn create<'a>(&'a self, cluster: &'a str, hint: &'a str, route: &'a Route) -> Answer<'a, ()>;
    fn delete<'a>(&'a self, cluster: &'a str, route: &'a Route) -> Answer<'a, ()>;
}

impl<T: Routes> AnyRoutes for T {
    fn list<'a>(&'a self, cluster: &'a str) -> Answer<'a, Vec<Route>> {
        Routes::list(self, cluster).boxed()
    }
    fn create<'a>(&'a self, cluster: &'a str, hint: &'a str, route: &'a Route) -> Answer<'a, ()> {
        Routes::create(self, cluster, hint, route).boxed()
    }
    fn delete<'a>(&'a self, cluster: &'a str, route: &'a Route) -> Answer<'a, ()> {
        Routes::delete(self, cluster, route).boxed()
    }
}
