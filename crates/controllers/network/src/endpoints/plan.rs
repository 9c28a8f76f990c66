//! What a Service's Endpoints should contain, and whether a write is needed. Pure.

use std::sync::Arc;

use flyball_api::endpoints::{EndpointAddress, EndpointPort, EndpointSubset};
use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Labels, Object, ObjectMeta, Service, Timestamp};
use flyball_runtime::events::ObjectRef;
use flyball_runtime::plan::Message;
use flyball_runtime::{ErrorKinds, Event, Plan, Write};

use super::MANAGER;
use super::subsets::{Offer, pack, truncate, unpack};
use crate::addresses::{self, Family};
use crate::names::{HEADLESS, MANAGED_BY, OVER_CAPACITY, TRIGGER_TIME};
use crate::{members, ports};

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a> {
    /// A Service with a selector; `None` if it is gone.
    pub service: Option<&'a Service>,
    /// The pods that it selects.
    pub pods: &'a [Arc<Pod>],
    /// The Endpoints of that name.
    pub current: Option<&'a Endpoints>,
    /// When the change happened that led to this sync.
    pub trigger: Option<Timestamp>,
}

/// Makes the Endpoints publish the pods of the Service, or deletes them with the Service.
pub fn plan(view: &View<'_>) -> Plan {
    Plan::of(match (view.service, view.current) {
        (Some(service), Some(current)) => update(view, service, current),
        (Some(service), None) => Some(create(view, service)),
        (None, Some(current)) => Some(delete(current)),
        (None, None) => None,
    })
}

fn create(view: &View<'_>, service: &Service) -> Write {
    let Desired { labels, subsets, is_truncated } = desired(view, service);
    let metadata = ObjectMeta {
        name: service.metadata.name.clone(),
        namespace: service.metadata.namespace.clone(),
        labels,
        annotations: annotations(&Labels::default(), view.trigger, is_truncated),
        ..ObjectMeta::default()
    };
    let endpoints = Endpoints { metadata, subsets };
    let message = format!("Failed to create endpoint for service {}: ", service.key());
    Write::create_exact(&endpoints)
        .why("the Service has no Endpoints")
        .ignore(ErrorKinds::NAMESPACE_TERMINATING)
        .on_failure(failed("FailedToCreateEndpoint", message, &endpoints))
}

fn update(view: &View<'_>, service: &Service, current: &Endpoints) -> Option<Write> {
    let Desired { labels, subsets, is_truncated } = desired(view, service);
    let is_up_to_date = current.metadata.annotations.contains_key(OVER_CAPACITY) == is_truncated
        && has_labels(current, &labels)
        && pack(unpack(&current.subsets).into_iter().map(Offer::unversioned)) == subsets;
    if is_up_to_date {
        return None;
    }
    let annotations = annotations(&current.metadata.annotations, view.trigger, is_truncated);
    let metadata = ObjectMeta { labels, annotations, ..current.metadata.clone() };
    let endpoints = Endpoints { metadata, subsets };
    let message = format!("Failed to update endpoint {}: ", service.key());
    let update = Write::replace(&endpoints)
        .why("addresses, ports or labels have changed")
        .on_failure(failed("FailedToUpdateEndpoint", message, &endpoints));
    Some(update)
}

fn delete(endpoints: &Endpoints) -> Write {
    // Other Endpoints that have taken the name must be deleted, too: a conflict is retried.
    Write::delete(endpoints).ignore_only(ErrorKinds::NOT_FOUND).why("the Service is gone")
}

fn failed(reason: &'static str, message: String, endpoints: &Endpoints) -> Event {
    Event::warning(reason, Message::ThenError(message)).about(ObjectRef::of(endpoints))
}

/// What the Endpoints of a Service should contain.
struct Desired {
    labels: Labels,
    subsets: Vec<EndpointSubset>,
    is_truncated: bool,
}

fn desired(view: &View<'_>, service: &Service) -> Desired {
    let mut subsets = pack(offers(service, view.pods));
    let is_truncated = truncate(&mut subsets);
    // Upstream keeps a subset of which all addresses were cut off, which the server refuses.
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    Desired { labels: labels(service), subsets, is_truncated }
}

fn offers(service: &Service, pods: &[Arc<Pod>]) -> Vec<Offer> {
    let publishes_all = service.spec.publish_not_ready_addresses;
    let mut offers = vec![];
    for pod in pods {
        if !members::has_address(pod) || (pod.metadata.is_deleting() && !publishes_all) {
            continue;
        }
        let Some(address) = address(service, pod) else { continue };
        let ready = publishes_all || pod.is_ready();
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
        Some(name) => Family::named(name).unwrap_or(Family::V4),
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
        // Upstream: endpoints_controller.go, podToEndpointAddressForService: a pod without a node has an empty node name. The
        // server refuses it, so all Endpoints of the Service stay as they are until the pod is bound (scenario
        // `endpoints-no-node`). Only the status of a pod that was written by hand has an address and no node.
        node_name: Some(pod.spec.node_name.clone()),
        target_ref: Some(members::reference(pod)),
    })
}

/// Endpoints have the labels of their Service, and two of their own.
fn labels(service: &Service) -> Labels {
    let has_address = !service.is_headless() && !service.spec.cluster_ip.is_empty();
    let own = service.metadata.labels.without(HEADLESS).with(MANAGED_BY, MANAGER);
    if has_address { own } else { own.with(HEADLESS, "") }
}

/// Whether the labels are right. A difference in the headless label alone does not cause a write.
fn has_labels(current: &Endpoints, wanted: &Labels) -> bool {
    current.metadata.labels.without(HEADLESS) == wanted.without(HEADLESS)
}

fn annotations(current: &Labels, trigger: Option<Timestamp>, is_truncated: bool) -> Labels {
    let timed = match trigger {
        Some(time) => current.with(TRIGGER_TIME, &time.to_string()),
        None => current.without(TRIGGER_TIME),
    };
    if is_truncated { timed.with(OVER_CAPACITY, "truncated") } else { timed.without(OVER_CAPACITY) }
}
