//! Simulated load balancers: addresses and nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::service::{LoadBalancerIngress, LoadBalancerStatus, ServicePort};
use flyball_api::{Key, Node, Object, RawJson, Service};
use serde_json::json;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::{Call, Simulated};
use crate::kit::{choose, shown};
use crate::provider::{CloudError, LoadBalancers, default_name};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancer {
    pub service: Key,
    pub addresses: Vec<IpAddr>,
    pub nodes: Vec<SmolStr>,
    /// When its creation began.
    pub since: Instant,
    ip_mode: Option<SmolStr>,
    /// The ports of the status, if it has them.
    ports: Option<RawJson>,
}

impl Balancer {
    fn status(&self) -> LoadBalancerStatus {
        let entry = |address: &IpAddr| LoadBalancerIngress {
            ip: format_smolstr!("{address}"),
            ip_mode: self.ip_mode.clone(),
            ports: self.ports.clone(),
            ..LoadBalancerIngress::default()
        };
        LoadBalancerStatus { ingress: self.addresses.iter().map(entry).collect() }
    }
}

pub(super) struct Balancers(pub(super) Simulated);

impl Balancers {
    /// The addresses in the statuses of other Services. Load balancers from before a restart may have them.
    fn shown_by_others(&self, service: &Service) -> BTreeSet<IpAddr> {
        let services = self.0.inner.services.get().map(|services| services.store().list());
        let others = services.into_iter().flatten().filter(|other| other.uid() != service.uid());
        others.flat_map(|other| shown(&other).collect::<Vec<_>>()).collect()
    }
}

impl LoadBalancers for Balancers {
    async fn get(&self, _: &str, service: &Service) -> Result<Option<LoadBalancerStatus>, CloudError> {
        let name = default_name(service);
        self.0.answer(Call::GetBalancer, |state| Ok(state.balancers.get(&name).map(Balancer::status)))
    }

    async fn ensure(
        &self,
        _: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<LoadBalancerStatus, CloudError> {
        let name = default_name(service);
        let shown = self.shown_by_others(service);
        self.0.answer(Call::EnsureBalancer, |state| {
            let pool = state.config.load_balancers.clone().ok_or(CloudError::NotImplemented)?;
            let others = state.balancers.iter().filter(|(other, _)| **other != name);
            let taken =
                others.flat_map(|(_, balancer)| balancer.addresses.iter().copied()).chain(shown).collect();
            let since = state.balancers.get(&name).map_or_else(Instant::now, |balancer| balancer.since);
            // An existing load balancer keeps its addresses while they are in the configured ranges.
            let mut wanted = service.clone();
            if let Some(present) = state.balancers.get(&name) {
                wanted.status.load_balancer = present.status();
            }
            let addresses = choose(&pool.addresses, &wanted, &taken).map_err(CloudError::failed)?;
            let balancer = Balancer {
                service: service.key(),
                addresses,
                nodes: names(nodes),
                since,
                ip_mode: pool.ip_mode,
                ports: pool.ports.then(|| ports(service)),
            };
            let status = balancer.status();
            state.balancers.insert(name.clone(), balancer);
            match pool.ready_after.saturating_sub(since.elapsed()) {
                Duration::ZERO => Ok(status),
                after => {
                    let message = format!("load balancer {name} is being made");
                    Err(CloudError::RetryAfter { message, after })
                }
            }
        })
    }

    async fn update(&self, _: &str, service: &Service, nodes: &[Arc<Node>]) -> Result<(), CloudError> {
        let name = default_name(service);
        self.0.answer(Call::UpdateBalancer, |state| {
            let missing = || CloudError::failed(format!("there is no load balancer {name}"));
            state.balancers.get_mut(&name).ok_or_else(missing)?.nodes = names(nodes);
            Ok(())
        })
    }

    async fn delete(&self, _: &str, service: &Service) -> Result<(), CloudError> {
        let name = default_name(service);
        self.0.answer(Call::DeleteBalancer, |state| {
            state.balancers.remove(&name);
            Ok(())
        })
    }
}

/// The ports of a status: all of the Service.
fn ports(service: &Service) -> RawJson {
    let port = |port: &ServicePort| json!({"port": port.port, "protocol": port.protocol});
    RawJson::from_value(&service.spec.ports.iter().map(port).collect())
}

fn names(nodes: &[Arc<Node>]) -> Vec<SmolStr> {
    nodes.iter().map(|node| node.metadata.name.clone()).collect()
}
