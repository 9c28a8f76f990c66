//! What a Service's Endpoints should say, and whether that is worth a write.

use std::sync::Arc;

use flyball_api::endpoints::{EndpointAddress, EndpointPort};
use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Labels, ObjectMeta, Service, Timestamp};

use super::MANAGER;
use super::subsets::{Offer, pack, truncate, unpack};
use crate::addresses::{self, Family};
use crate::names::{HEADLESS, MANAGED_BY, OVER_CAPACITY, TRIGGER_TIME};
use crate::{members, ports};

/// Everything the decision may look at, borrowed from one snapshot.
pub struct View<'a> {
    pub service: &'a Service,
    pub pods: &'a [Arc<Pod>],
    pub current: Option<&'a Endpoints>,
    /// When the change happened that this answers.
    pub trigger: Option<Timestamp>,
}

/// The one write that is needed.
#[derive(Debug, PartialEq)]
pub enum Action {
    Nothing,
    Create(Endpoints),
    Update(Endpoints),
}

/// The write that makes the Endpoints say what the pods offer.
pub fn plan(view: &View<'_>) -> Action {
    let mut subsets = pack(offers(view));
    let truncated = truncate(&mut subsets);
    // Upstream leaves a subset that was cut down to nothing in its place, which the server refuses.
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    let labels = labels(view.service);
    let Some(current) = view.current else {
        let metadata = ObjectMeta {
            name: view.service.metadata.name.clone(),
            namespace: view.service.metadata.namespace.clone(),
            labels,
            annotations: annotations(&Labels::default(), view.trigger, truncated),
            ..ObjectMeta::default()
        };
        return Action::Create(Endpoints { metadata, subsets });
    };
    let is_settled = current.metadata.annotations.contains_key(OVER_CAPACITY) == truncated
        && has_labels(current, &labels)
        && pack(unpack(&current.subsets)) == subsets;
    if is_settled {
        return Action::Nothing;
    }
    let metadata = ObjectMeta {
        labels,
        annotations: annotations(&current.metadata.annotations, view.trigger, truncated),
        ..current.metadata.clone()
    };
    Action::Update(Endpoints { metadata, subsets })
}

fn offers(view: &View<'_>) -> Vec<Offer> {
    let service = view.service;
    let everything = service.spec.publish_not_ready_addresses;
    let mut offers = vec![];
    for pod in view.pods {
        if !members::has_address(pod) || (pod.metadata.is_deleting() && !everything) {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let ready = everything || pod.is_ready();
        if service.spec.ports.is_empty() && service.is_headless() {
            offers.push(Offer { address, ready, port: None });
            continue;
        }
        for port in &service.spec.ports {
            let Some(number) = ports::target(pod, port) else { continue };
            let port = EndpointPort {
                name: port.name.clone(),
                port: number,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            };
            offers.push(Offer { address: address.clone(), ready, port: Some(port) });
        }
    }
    offers
}

/// The pod's first address of the Service's first family.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let family = match service.spec.ip_families.first() {
        Some(name) => {
            if name == Family::V6.as_str() {
                Family::V6
            } else {
                Family::V4
            }
        }
        None => {
            let own = addresses::parse(&service.spec.cluster_ip);
            own.or_else(|| addresses::parse(pod.status.pod_ip())).map_or(Family::V4, |(family, _)| family)
        }
    };
    let mut parsed = pod.status.pod_ips.iter().filter_map(|ip| addresses::parse(ip));
    let (_, ip) = parsed.find(|(of, _)| *of == family)?;
    Some(EndpointAddress {
        ip,
        hostname: members::hostname(pod, service).cloned().unwrap_or_default(),
        node_name: Some(pod.spec.node_name.clone()).filter(|node| !node.is_empty()),
        target_ref: Some(members::reference(pod)),
    })
}

/// Endpoints have the labels of their Service, and two of their own.
fn labels(service: &Service) -> Labels {
    let has_address = !service.is_headless() && !service.spec.cluster_ip.is_empty();
    let own = service.metadata.labels.without(HEADLESS).with(MANAGED_BY, MANAGER);
    if has_address { own } else { own.with(HEADLESS, "") }
}

/// Whether the labels are right, but for the headless mark: that alone is not worth a write.
fn has_labels(current: &Endpoints, wanted: &Labels) -> bool {
    current.metadata.labels.without(HEADLESS) == wanted.without(HEADLESS)
}

fn annotations(current: &Labels, trigger: Option<Timestamp>, truncated: bool) -> Labels {
    let timed = match trigger {
        Some(time) => current.with(TRIGGER_TIME, &time.to_string()),
        None => current.without(TRIGGER_TIME),
    };
    if truncated { timed.with(OVER_CAPACITY, "truncated") } else { timed.without(OVER_CAPACITY) }
}
