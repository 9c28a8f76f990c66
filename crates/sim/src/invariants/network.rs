//! Rules for Endpoints and EndpointSlices.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use super::values::{ensure, is_deleting, items, name, selects, text};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("endpoints-controller",               "only addresses of pods of the Service",                    endpoints),
    rule("endpointslice-controller",           "only pods of the Service, each once",                      slices),
    rule("endpointslice-mirroring-controller", "only addresses of the Endpoints",                          mirrored),
    rule("service-cidr-controller",            "a range keeps its finalizer while only it has an address", ranges),
];

/// Whether a Service has ever selected the pod, and the pod has ever had the address.
fn was_chosen(
    state: &ServerState,
    services: &[Arc<Value>],
    target: &Value,
    address: &str,
) -> Result<(), String> {
    let pods = state.versions("", "pods", text(&target["uid"]));
    ensure(!pods.is_empty(), || format!("{address} is of no pod that there ever was: {target}"))?;
    let chooses = |service: &Arc<Value>| {
        let selector = &service["spec"]["selector"];
        selector.is_object() && pods.iter().any(|pod| selects(selector, &pod["metadata"]["labels"]))
    };
    ensure(services.iter().any(chooses), || format!("the Service never chose {}", target["name"]))?;
    let own = |pod: &Arc<Value>| {
        let all =
            items(&pod["status"]["podIPs"]).map(|ip| text(&ip["ip"])).chain([text(&pod["status"]["podIP"])]);
        all.into_iter().any(|ip| is_same(ip, address))
    };
    ensure(pods.iter().any(own), || format!("{} never had the address {address}", target["name"]))
}

fn is_same(one: &str, other: &str) -> bool {
    one == other || one.parse::<IpAddr>().ok().zip(other.parse::<IpAddr>().ok()).is_some_and(|(a, b)| a == b)
}

fn endpoints(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("", "endpoints") || write.verb == "delete" {
        return Ok(());
    }
    let services = state.versions_named("", "services", &write.namespace, &write.name);
    for subset in items(&write.after["subsets"]) {
        let all = items(&subset["addresses"]).chain(items(&subset["notReadyAddresses"]));
        for address in all {
            was_chosen(state, &services, &address["targetRef"], text(&address["ip"]))?;
        }
    }
    Ok(())
}

fn slices(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("discovery.k8s.io", "endpointslices") || write.verb == "delete" {
        return Ok(());
    }
    let service = text(&write.after["metadata"]["labels"]["kubernetes.io/service-name"]);
    let services = state.versions_named("", "services", &write.namespace, service);
    let mut seen = BTreeSet::new();
    for endpoint in items(&write.after["endpoints"]) {
        let target = &endpoint["targetRef"];
        ensure(seen.insert(text(&target["uid"])), || format!("{} is there twice", target["name"]))?;
        for address in items(&endpoint["addresses"]) {
            was_chosen(state, &services, target, text(address))?;
        }
    }
    Ok(())
}

fn mirrored(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.is_on("discovery.k8s.io", "endpointslices") || write.verb == "delete" {
        return Ok(());
    }
    let source = text(&write.after["metadata"]["labels"]["kubernetes.io/service-name"]);
    let said = state.versions_named("", "endpoints", &write.namespace, source);
    let subsets = || said.iter().flat_map(|endpoints| items(&endpoints["subsets"]));
    let named = || {
        let all = |subset: &'_ Value| {
            let both = items(&subset["addresses"]).chain(items(&subset["notReadyAddresses"]));
            both.map(|address| text(&address["ip"]).to_owned()).collect::<Vec<_>>()
        };
        subsets().flat_map(all)
    };
    for address in items(&write.after["endpoints"]).flat_map(|endpoint| items(&endpoint["addresses"])) {
        ensure(named().any(|ip| is_same(&ip, text(address))), || format!("{address} is in no Endpoints"))?;
    }
    Ok(())
}

fn ranges(state: &ServerState, write: &Write) -> Result<(), String> {
    const GROUP: &str = "networking.k8s.io";
    if !write.drops("networking.k8s.io/service-cidr-finalizer") {
        return Ok(());
    }
    let parse = |range: &Value| -> Vec<IpNet> {
        items(&range["spec"]["cidrs"]).filter_map(|cidr| text(cidr).parse().ok()).collect()
    };
    let own = parse(&write.before);
    let others = state.list(GROUP, "servicecidrs", None);
    let others: Vec<IpNet> = others
        .iter()
        .filter(|range| name(range) != write.name && !is_deleting(range))
        .flat_map(|range| parse(range))
        .collect();
    for address in state.list(GROUP, "ipaddresses", None) {
        let Ok(ip) = name(&address).parse::<IpAddr>() else { continue };
        let is_in = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&ip));
        ensure(!is_in(&own) || is_in(&others), || format!("{ip} would be in no range"))?;
    }
    Ok(())
}
