//! Services.

use serde_json::{Value, json};

use super::{At, Faults, cidr, domain_path, go_struct, ip, names, port_name, quoting, special_ip};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(in crate::kinds) fn service(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    let kind = spec.text("type");
    let headless = spec.text("clusterIP") == "None";
    let needs_ports = kind != "ExternalName" && !headless;
    if needs_ports && spec.value.items("ports").is_empty() {
        faults.push(Cause::required(spec.path("ports"), ""));
    }
    match kind {
        "NodePort" | "LoadBalancer" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            faults.push(Cause::invalid("spec.clusterIPs[0]", "None", &detail));
        }
        "ExternalName" => external_name(&mut faults, &spec),
        _ => {}
    }
    ports(&mut faults, &spec, kind);
    spec.labels(&mut faults, "selector");
    spec.one_of(&mut faults, "sessionAffinity", &["ClientIP", "None"]);
    affinity(&mut faults, &spec);
    addresses(&mut faults, &spec);
    spec.one_of(&mut faults, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    traffic(&mut faults, &spec, kind);
    faults
}

fn external_name(faults: &mut Faults, spec: &At<'_>) {
    if spec.has("clusterIPs") || spec.has("clusterIP") {
        let detail = "may not be set when `type` is 'ExternalName'";
        faults.push(Cause::forbidden(spec.path("clusterIPs"), detail));
    }
    let name = spec.text("externalName").trim_end_matches('.');
    if name.is_empty() {
        faults.push(Cause::required(spec.path("externalName"), ""));
    } else {
        let details = names::subdomain(name);
        faults.extend(details.iter().map(|detail| Cause::invalid(spec.path("externalName"), name, detail)));
    }
}

fn ports(faults: &mut Faults, spec: &At<'_>, kind: &str) {
    let several = spec.value.items("ports").len() > 1;
    let mut seen: Vec<(i64, &str)> = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for port in spec.items("ports") {
        let name = port.text("name");
        if name.is_empty() {
            if several {
                faults.push(Cause::required(port.path("name"), ""));
            }
        } else {
            port.must_be(faults, "name", names::label);
            if named.contains(&name) {
                faults.push(Cause::duplicate(port.path("name"), name));
            }
            named.push(name);
        }
        port.between(faults, "port", 1, 65_535);
        port.one_of(faults, "protocol", &PROTOCOLS);
        match port.value.at("targetPort") {
            Value::Number(_) => port.between(faults, "targetPort", 1, 65_535),
            Value::String(_) => port.must_be(faults, "targetPort", port_name),
            _ => {}
        }
        if port.int("nodePort").unwrap_or(0) != 0 && !matches!(kind, "NodePort" | "LoadBalancer") {
            let detail = format!("may not be used when `type` is '{kind}'");
            faults.push(Cause::forbidden(port.path("nodePort"), &detail));
        }
        let key = (port.int("port").unwrap_or(0), port.text("protocol"));
        if seen.contains(&key) {
            let value = go_struct(&[
                ("Name", &json!("")),
                ("Protocol", &json!(key.1)),
                ("AppProtocol", &Value::Null),
                ("Port", &json!(key.0)),
                ("TargetPort", &json!(0)),
                ("NodePort", &json!(0)),
            ]);
            faults.push(quoting(Fault::Duplicate, port.path.clone(), &value, ""));
        }
        seen.push(key);
    }
}

fn affinity(faults: &mut Faults, spec: &At<'_>) {
    let client = spec.child("sessionAffinityConfig.clientIP");
    if let Some(timeout) = client.int("timeoutSeconds").filter(|timeout| !(1..=86_400).contains(timeout)) {
        let detail = "must be greater than 0 and less than 86400";
        faults.push(Cause::invalid(client.path("timeoutSeconds"), timeout, detail));
    }
}

fn addresses(faults: &mut Faults, spec: &At<'_>) {
    let mut given: Vec<At<'_>> = spec.items("clusterIPs").collect();
    if given.is_empty() && !spec.text("clusterIP").is_empty() {
        given.push(At { value: spec.value.at("clusterIP"), path: spec.path("clusterIPs[0]") });
    }
    for address in given {
        let text = address.text("");
        if text != "None" && !text.is_empty() {
            address.must_be(faults, "", ip);
        }
    }
    for family in spec.items("ipFamilies") {
        if !matches!(family.text(""), "IPv4" | "IPv6") {
            faults.push(Cause::not_supported(family.path.clone(), family.text(""), &["IPv4", "IPv6"]));
        }
    }
    spec.one_of(faults, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    for external in spec.items("externalIPs") {
        let text = external.text("");
        external.must_be(faults, "", ip);
        if let Some(detail) = special_ip(text) {
            faults.push(Cause::invalid(external.path.clone(), text, detail));
        }
    }
}

fn traffic(faults: &mut Faults, spec: &At<'_>, kind: &str) {
    let balanced = kind == "LoadBalancer";
    if !spec.value.items("loadBalancerSourceRanges").is_empty() {
        if balanced {
            for range in spec.items("loadBalancerSourceRanges") {
                range.must_be(faults, "", cidr);
            }
        } else {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            faults.push(Cause::forbidden(spec.path("LoadBalancerSourceRanges"), detail));
        }
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if spec.has(field) && !balanced {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            faults.push(Cause::forbidden(spec.path(field), detail));
        }
    }
    if balanced && spec.has("loadBalancerClass") {
        spec.must_be(faults, "loadBalancerClass", class_name);
    }
    let external = matches!(kind, "LoadBalancer" | "NodePort") || !spec.value.items("externalIPs").is_empty();
    let policy = spec.text("externalTrafficPolicy");
    if !external && !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        faults.push(Cause::invalid(spec.path("externalTrafficPolicy"), policy, detail));
    } else {
        spec.one_of(faults, "externalTrafficPolicy", &["Cluster", "Local"]);
    }
    let checks = balanced && policy == "Local";
    if let Some(port) = spec.int("healthCheckNodePort").filter(|port| *port != 0 && !checks) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.push(Cause::invalid(spec.path("healthCheckNodePort"), port, detail));
    }
    spec.one_of(faults, "internalTrafficPolicy", &["Cluster", "Local"]);
}

/// A class, with or without a domain as prefix.
fn class_name(text: &str) -> Vec<String> {
    if text.contains('/') { domain_path(text) } else { names::qualified_name(text) }
}

pub(in crate::kinds) fn service_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let needs_ip = |service: &Value| service.text("spec.type") != "ExternalName";
    let changed = new.at("spec.clusterIPs") != old.at("spec.clusterIPs");
    let had = !old.items("spec.clusterIPs").is_empty();
    if needs_ip(new)
        && needs_ip(old)
        && had
        && changed
        && new.items("spec.clusterIPs").first() != old.items("spec.clusterIPs").first()
    {
        let value = new.at("spec.clusterIPs").clone();
        faults.push(Cause::invalid("spec.clusterIPs[0]", value, "may not change once set"));
    }
    let class = |service: &Value| service.at("spec.loadBalancerClass").clone();
    let both = |field: &str| new.text("spec.type") == field && old.text("spec.type") == field;
    if both("LoadBalancer") && class(new) != class(old) {
        faults.push(Cause::invalid("spec.loadBalancerClass", class(new), "may not change once set"));
    }
    faults.extend(service(new));
    faults
}
