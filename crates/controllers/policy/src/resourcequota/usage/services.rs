//! What services use of a quota.

use std::sync::Arc;

use flyball_api::{Quantity, ResourceList, Service};

use crate::resourcequota::names::OfServices;

/// What the services use of each of `names`.
pub fn usage(services: &[Arc<Service>], names: &[&str]) -> ResourceList {
    let measured = names.iter().filter_map(|name| Some((*name, OfServices::parse(name)?)));
    measured
        .map(|(name, of)| (name, Quantity::new(services.iter().map(|service| of.amount(service)).sum())))
        .collect()
}

impl OfServices {
    fn amount(self, service: &Service) -> i64 {
        match self {
            Self::Objects => 1,
            Self::LoadBalancers => i64::from(service.spec.type_ == "LoadBalancer"),
            Self::NodePorts => node_ports(service),
        }
    }
}

/// The ports it takes on every node. At creation they are not allotted yet, so that it is the wish that counts.
fn node_ports(service: &Service) -> i64 {
    let spec = &service.spec;
    let counted = match spec.type_.as_str() {
        "NodePort" => spec.ports.len(),
        "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => {
            spec.ports.iter().filter(|port| port.node_port != 0).count()
        }
        "LoadBalancer" => spec.ports.len(),
        _ => 0,
    };
    i64::try_from(counted).unwrap_or(i64::MAX)
}
