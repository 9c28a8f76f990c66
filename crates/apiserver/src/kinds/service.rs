//! Services: defaults, and which fields are dropped when the type changes. Addresses and node ports are allocated in
//! `addresses`; the functions `wants_…` decide whether a service needs them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::apps::prints;
use super::json::Json;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, NameRule, Strategy};

/// `v1` Service.
pub(super) struct Service;

/// Whether it can be reached from outside of the cluster.
fn is_external(service: &Value) -> bool {
    match service.text("spec.type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !service.items("spec.externalIPs").is_empty(),
        _ => false,
    }
}

/// Type, ports, affinity and traffic policies.
pub(super) fn default_service(service: &mut Value) {
    service.or_put("spec.sessionAffinity", "None");
    match service.text("spec.sessionAffinity") {
        "None" => drop(service.pull("spec.sessionAffinityConfig")),
        "ClientIP" => service.or_put("spec.sessionAffinityConfig.clientIP.timeoutSeconds", 10_800),
        _ => {}
    }
    service.or_put("spec.type", "ClusterIP");
    for port in service.items_mut("spec.ports") {
        port.or_put("protocol", "TCP");
        if matches!(port.at("targetPort"), Value::Null)
            || port.at("targetPort") == &json!(0)
            || port.at("targetPort") == ""
        {
            let number = port.at("port").clone();
            port.put("targetPort", number);
        }
    }
    if is_external(service) {
        service.or_put("spec.externalTrafficPolicy", "Cluster");
    }
    if matches!(service.text("spec.type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
        service.or_put("spec.internalTrafficPolicy", "Cluster");
    }
    if service.text("spec.type") == "LoadBalancer" {
        service.or_put("spec.allocateLoadBalancerNodePorts", true);
        for ingress in service.items_mut("status.loadBalancer.ingress") {
            if ingress.has("ip") {
                ingress.or_put("ipMode", "VIP");
            }
        }
    }
}

/// Sets the IP families of a service, on a cluster with the given families (the primary one first), and makes `clusterIP` and
/// `clusterIPs` consistent. Families without an address get one later.
pub fn decide_families(service: &mut Value, cluster: &[&'static str]) {
    sync_cluster_ips(service);
    if service.text("spec.type") == "ExternalName" {
        return;
    }
    let headless = service.text("spec.clusterIP") == "None";
    let given: Vec<String> =
        service.items("spec.clusterIPs").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let mut families: Vec<Value> = service.items("spec.ipFamilies").to_vec();
    for (at, ip) in given.iter().enumerate().filter(|(_, ip)| *ip != "None") {
        if families.len() <= at {
            families.push(family_of(ip).into());
        }
    }
    let unselective = headless && service.map("spec.selector").is_none_or(|selector| selector.is_empty());
    if !service.has("spec.ipFamilyPolicy") {
        let policy = match families.len() {
            2.. => "RequireDualStack",
            _ if unselective && families.is_empty() => "RequireDualStack",
            _ => "SingleStack",
        };
        service.put("spec.ipFamilyPolicy", policy);
    }
    let dual = service.text("spec.ipFamilyPolicy") != "SingleStack";
    if families.is_empty() {
        families.push(cluster.first().copied().unwrap_or("IPv4").into());
    }
    let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
    if dual && families.len() < 2 && (cluster.contains(&other) || unselective) {
        families.push(other.into());
    }
    service.put("spec.ipFamilies", families);
}

/// The IP family of an address.
pub fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}

/// `clusterIP` is the first of `clusterIPs`, whichever of them was given.
fn sync_cluster_ips(service: &mut Value) {
    let single = service.text("spec.clusterIP").to_owned();
    match service.items("spec.clusterIPs").first().cloned() {
        None if !single.is_empty() => service.put("spec.clusterIPs", json!([single])),
        Some(first) if single.is_empty() => service.put("spec.clusterIP", first),
        _ => {}
    }
}

/// Whether the allocator has to find node ports for it.
pub fn wants_node_ports(service: &Value) -> bool {
    match service.text("spec.type") {
        "NodePort" => true,
        "LoadBalancer" => service.at("spec.allocateLoadBalancerNodePorts") != &Value::Bool(false),
        _ => false,
    }
}

/// Whether the allocator has to find a port for health checks of it.
pub fn wants_health_check_port(service: &Value) -> bool {
    service.text("spec.type") == "LoadBalancer" && service.text("spec.externalTrafficPolicy") == "Local"
}

impl Strategy for Service {
    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, old: &Value) {
        keep_addresses(new, old);
        drop_what_no_longer_applies(new, old);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn validate_create(&self, service: &Value) -> Vec<Cause> {
        validate::service::service(service)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::service::service_update(new, old)
    }

    fn warnings(&self, service: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        if !service.items("spec.externalIPs").is_empty() {
            warnings.push(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
            );
        }
        let headless = service.text("spec.clusterIP") == "None";
        if headless && service.has("spec.loadBalancerIP") {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if headless && service.text("spec.sessionAffinity") == "ClientIP" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
        warnings
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn field_values(&self, service: &Value) -> Vec<String> {
        vec![service.text("spec.clusterIP").to_owned(), service.text("spec.type").to_owned()]
    }

    prints!(print::SERVICE);
}

/// Keeps allocated addresses and node ports (by port and protocol) that the update leaves out.
fn keep_addresses(new: &mut Value, old: &Value) {
    let needs_ip = |service: &Value| service.text("spec.type") != "ExternalName";
    if needs_ip(new) && needs_ip(old) {
        for path in ["spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if !new.has(path) && old.has(path) {
                new.put(path, old.at(path).clone());
            }
        }
        // A change to SingleStack without a change of the lists keeps the first family.
        if new.text("spec.ipFamilyPolicy") == "SingleStack" {
            for path in ["spec.clusterIPs", "spec.ipFamilies"] {
                if new.at(path) == old.at(path) && new.items(path).len() > 1 {
                    let first = new.items(path)[..1].to_vec();
                    new.put(path, first);
                }
            }
        }
    }
    if wants_node_ports(new) && wants_node_ports(old) {
        let mut used: Vec<i64> =
            new.items("spec.ports").iter().filter_map(|port| port.int("nodePort")).collect();
        for port in new.items_mut("spec.ports").iter_mut().filter(|port| !port.has("nodePort")) {
            let same =
                |other: &&Value| ["port", "protocol"].iter().all(|field| other.at(field) == port.at(field));
            let earlier = old.items("spec.ports").iter().find(same).and_then(|other| other.int("nodePort"));
            if let Some(number) = earlier.filter(|number| !used.contains(number)) {
                used.push(number);
                port.put("nodePort", number);
            }
        }
    }
    if wants_health_check_port(new) && wants_health_check_port(old) && !new.has("spec.healthCheckNodePort") {
        let port = old.at("spec.healthCheckNodePort").clone();
        new.put("spec.healthCheckNodePort", port);
    }
}

/// Whether a field applies to a service.
type Applies = fn(&Value) -> bool;

/// Drops fields that the server had set, that the user did not change, and that the new type does not have.
fn drop_what_no_longer_applies(new: &mut Value, old: &Value) {
    let same = |new: &Value, path: &str| new.at(path) == old.at(path);
    let became = |new: &Value, applies: Applies| applies(old) && !applies(new);
    if became(new, |s| s.text("spec.type") != "ExternalName") {
        let addresses_same = same(new, "spec.clusterIP") && same(new, "spec.clusterIPs");
        if addresses_same {
            new.pull("spec.clusterIP");
            new.pull("spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(new, path) {
                new.pull(path);
            }
        }
    }
    let node_ports = |s: &Value| -> Vec<Value> {
        s.items("spec.ports").iter().map(|p| p.at("nodePort").clone()).collect()
    };
    let has_node_ports = |s: &Value| matches!(s.text("spec.type"), "NodePort" | "LoadBalancer");
    if became(new, has_node_ports) && node_ports(new) == node_ports(old) {
        for port in new.items_mut("spec.ports") {
            port.pull("nodePort");
        }
    }
    let single: [(&str, Applies); 5] = [
        ("spec.healthCheckNodePort", wants_health_check_port),
        ("spec.allocateLoadBalancerNodePorts", |s| s.text("spec.type") == "LoadBalancer"),
        ("spec.loadBalancerClass", |s| s.text("spec.type") == "LoadBalancer"),
        ("spec.externalTrafficPolicy", is_external),
        ("spec.internalTrafficPolicy", |s| s.text("spec.type") != "ExternalName"),
    ];
    for (path, applies) in single {
        if became(new, applies) && same(new, path) {
            new.pull(path);
        }
    }
    if new.text("spec.type") != "LoadBalancer" {
        new.put("status.loadBalancer", json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_one_family_keeps_the_first() {
        let both = json!({"spec": {
            "type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
        }});
        let mut one = both.clone();
        one.put("spec.ipFamilyPolicy", "SingleStack");
        keep_addresses(&mut one, &both);
        assert_eq!(one.at("spec.ipFamilies"), &json!(["IPv4"]));
        assert_eq!(one.at("spec.clusterIPs"), &json!(["10.0.0.1"]));
    }
}
