//! Checks of load balancers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use flyball_api::service::LoadBalancerStatus;
use flyball_api::{Node, Service};

use super::{Report, World, ensure, service, settled, shared};
use crate::provider::AnyLoadBalancers;

struct Balancers<'a> {
    inner: &'a dyn AnyLoadBalancers,
    cluster: &'a str,
    nodes: Vec<Arc<Node>>,
}

pub(super) async fn check(world: &World, inner: &dyn AnyLoadBalancers, report: &mut Report) {
    let all = Balancers { inner, cluster: &world.cluster, nodes: shared(&world.running) };
    let (a, b) = (service("a", &["IPv4"]), service("b", &["IPv4"]));
    report.add("nothing is there before it is made, and deleting it is no failure", all.before(&a).await);
    report.add("a load balancer is made, and is found as it was made", all.made(&a).await);
    report.add("a second one has a name and addresses of its own", all.apart(&a, &b).await);
    report.add("a load balancer with other nodes keeps its addresses", all.keeps(&a).await);
    report.add("a new process finds the addresses that the status shows", all.shown(&a).await);
    match world.is_dual_stack {
        true => report.add("a Service of two families has an address of each", all.dual().await),
        false => {
            report.skip("a Service of two families has an address of each", "the world is not dual-stack")
        }
    }
    report.add("a deleted load balancer is gone, and deleting it again is no failure", all.deleted(&a).await);
    report.add("deleting one leaves the others", all.others_stay(&b).await);
}

impl Balancers<'_> {
    async fn ensure(&self, service: &Service, nodes: &[Arc<Node>]) -> Result<LoadBalancerStatus, String> {
        let status = settled(|| self.inner.ensure(self.cluster, service, nodes)).await?;
        ensure(!status.ingress.is_empty(), || "it has neither address nor host name".to_owned())?;
        for ingress in &status.ingress {
            let is_address = ingress.ip.parse::<IpAddr>().is_ok();
            let is_host = ingress.ip.is_empty() && !ingress.hostname.is_empty();
            ensure(is_address || is_host, || format!("{:?} is not an address", ingress.ip))?;
        }
        Ok(status)
    }

    async fn get(&self, service: &Service) -> Result<Option<LoadBalancerStatus>, String> {
        settled(|| self.inner.get(self.cluster, service)).await
    }

    async fn delete(&self, service: &Service) -> Result<(), String> {
        settled(|| self.inner.delete(self.cluster, service)).await
    }

    async fn before(&self, service: &Service) -> Result<(), String> {
        let found = self.get(service).await?;
        ensure(found.is_none(), || format!("there is {found:?}"))?;
        self.delete(service).await
    }

    async fn made(&self, service: &Service) -> Result<(), String> {
        let made = self.ensure(service, &self.nodes).await?;
        let found = self.get(service).await?;
        ensure(found.as_ref() == Some(&made), || format!("made as {made:?}, found as {found:?}"))?;
        let again = self.ensure(service, &self.nodes).await?;
        ensure(again == made, || format!("made again, {made:?} becomes {again:?}"))
    }

    async fn apart(&self, a: &Service, b: &Service) -> Result<(), String> {
        let (first, second) = (self.ensure(a, &self.nodes).await?, self.ensure(b, &self.nodes).await?);
        let (first, second) = (places(&first), places(&second));
        ensure(first.is_disjoint(&second), || format!("{first:?} and {second:?} overlap"))?;
        let names = [a, b].map(|service| self.inner.name(self.cluster, service));
        ensure(names[0] != names[1], || format!("both are called {}", names[0]))
    }

    async fn keeps(&self, service: &Service) -> Result<(), String> {
        let made = self.ensure(service, &self.nodes).await?;
        let fewer = &self.nodes[..self.nodes.len().min(1)];
        for nodes in [fewer, &self.nodes] {
            settled(|| self.inner.update(self.cluster, service, nodes)).await?;
            let found = self.get(service).await?;
            ensure(found.as_ref() == Some(&made), || {
                format!("with {} nodes, {made:?} becomes {found:?}", nodes.len())
            })?;
        }
        Ok(())
    }

    async fn shown(&self, service: &Service) -> Result<(), String> {
        let made = self.ensure(service, &self.nodes).await?;
        let mut with_status = service.clone();
        with_status.status.load_balancer = made.clone();
        let again = self.ensure(&with_status, &self.nodes).await?;
        ensure(again == made, || format!("the status shows {made:?}, but it becomes {again:?}"))
    }

    async fn dual(&self) -> Result<(), String> {
        let service = service("dual", &["IPv6", "IPv4"]);
        let made = self.ensure(&service, &self.nodes).await?;
        self.delete(&service).await?;
        let addresses = made.ingress.iter().filter_map(|ingress| ingress.ip.parse::<IpAddr>().ok());
        let families: BTreeSet<bool> = addresses.map(|address| address.is_ipv6()).collect();
        ensure(families.len() == 2, || format!("it has only {made:?}"))
    }

    async fn deleted(&self, service: &Service) -> Result<(), String> {
        self.delete(service).await?;
        let found = self.get(service).await?;
        ensure(found.is_none(), || format!("there still is {found:?}"))?;
        self.delete(service).await
    }

    async fn others_stay(&self, other: &Service) -> Result<(), String> {
        let found = self.get(other).await?;
        self.delete(other).await?;
        ensure(found.is_some(), || "the other one is gone, too".to_owned())
    }
}

/// The addresses and host names of a status.
fn places(status: &LoadBalancerStatus) -> BTreeSet<String> {
    status.ingress.iter().map(|ingress| format!("{}{}", ingress.ip, ingress.hostname)).collect()
}
