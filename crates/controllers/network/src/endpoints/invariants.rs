//! What must hold for every plan, whatever the snapshot; for tables, properties and the simulator.

use std::collections::BTreeSet;

use flyball_api::pod::Pod;
use flyball_api::{Endpoints, Service};
use flyball_runtime::{Plan, Write, all_hold};

use super::plan::View;
use super::subsets::CAPACITY;
use crate::names::OVER_CAPACITY;
use crate::{addresses, members};

pub fn check(view: &View<'_>, plan: &Plan) -> Result<(), String> {
    let Some(service) = view.service else { return Ok(()) };
    let written = plan.writes().into_iter().filter_map(written);
    all_hold(written.flat_map(|new| wrong(view, service, &new)).collect())
}

/// The Endpoints that a write sends; `None` for a deletion.
pub(super) fn written(write: &Write) -> Option<Endpoints> {
    serde_json::from_value(write.body()?).ok()
}

fn wrong(view: &View<'_>, service: &Service, endpoints: &Endpoints) -> Vec<String> {
    let mut broken = vec![];
    let mut total = 0;
    for subset in &endpoints.subsets {
        let mut seen = BTreeSet::new();
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        for (address, ready) in ready.chain(not_ready) {
            total += 1;
            let name = address.target_ref.as_ref().map(|target| target.name.as_str()).unwrap_or_default();
            if !seen.insert((name, &address.ip)) {
                broken.push(format!("{name} at {} is twice in one subset", address.ip));
            }
            match view.pods.iter().find(|pod| pod.metadata.name == name) {
                None => broken.push(format!("{} is not the address of a selected pod", address.ip)),
                Some(pod) => broken.extend(wrong_address(service, pod, &address.ip, ready)),
            }
        }
        if seen.is_empty() {
            broken.push(format!("the subset with the ports {:?} has no address", subset.ports));
        }
    }
    if total > CAPACITY {
        broken.push(format!("{total} addresses in one object"));
    }
    if endpoints.metadata.annotations.contains_key(OVER_CAPACITY) && total < CAPACITY {
        broken.push(format!("{total} addresses are annotated as truncated"));
    }
    broken
}

/// Violations by the address of one pod.
fn wrong_address(service: &Service, pod: &Pod, ip: &str, ready: bool) -> Option<String> {
    let (name, publishes_all) = (&pod.metadata.name, service.spec.publish_not_ready_addresses);
    if !pod.status.pod_ips.iter().any(|own| addresses::parse(own).is_some_and(|(_, own)| own == ip)) {
        return Some(format!("{ip} is not an address of {name}"));
    }
    if !members::has_address(pod) || (pod.metadata.is_deleting() && !publishes_all) {
        return Some(format!("{name} is finished or being deleted, and published"));
    }
    (ready != (publishes_all || pod.is_ready())).then(|| format!("{name} is published as ready={ready}"))
}
