//! What must hold after every step, for tables and simulator alike.

use std::collections::BTreeSet;

use flyball_api::pod::Pod;

use super::plan::{Action, View};
use super::subsets::CAPACITY;
use crate::names::OVER_CAPACITY;
use crate::{addresses, members};

/// What is wrong with a planned write; empty when nothing is.
pub fn broken(view: &View<'_>, action: &Action) -> Vec<String> {
    let (Action::Create(endpoints) | Action::Update(endpoints)) = action else { return vec![] };
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
                None => broken.push(format!("{} is no selected pod's address", address.ip)),
                Some(pod) => broken.extend(told_wrong(view, pod, &address.ip, ready)),
            }
        }
        if seen.is_empty() {
            broken.push(format!("a subset of nobody has the ports {:?}", subset.ports));
        }
    }
    if total > CAPACITY {
        broken.push(format!("{total} addresses in one object"));
    }
    if endpoints.metadata.annotations.contains_key(OVER_CAPACITY) && total < CAPACITY {
        broken.push(format!("{total} addresses are said to be too many"));
    }
    broken
}

/// What is wrong with how one pod is published.
fn told_wrong(view: &View<'_>, pod: &Pod, ip: &str, ready: bool) -> Option<String> {
    let (name, everything) = (&pod.metadata.name, view.service.spec.publish_not_ready_addresses);
    if !pod.status.pod_ips.iter().any(|own| addresses::parse(own).is_some_and(|(_, own)| own == ip)) {
        return Some(format!("{ip} is not an address of {name}"));
    }
    if !members::has_address(pod) || (pod.metadata.is_deleting() && !everything) {
        return Some(format!("{name} is finished or going, and published"));
    }
    (ready != (everything || pod.is_ready())).then(|| format!("{name} is published as ready={ready}"))
}
