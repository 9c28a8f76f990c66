//! Endpoints, slices, ingresses, network policies, address ranges.

use serde_json::Value;

use super::{At, Faults, Rule, cidr, domain_path, ip, names, port_name, selector, special_ip};
use crate::invalid::Cause;
use crate::kinds::json::Json;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(in crate::kinds) fn endpoints(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    for subset in At::root(object).items("subsets") {
        let has = |field: &str| !subset.value.items(field).is_empty();
        if !has("addresses") && !has("notReadyAddresses") {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            faults.push(Cause::required(subset.path.clone(), detail));
        }
        for address in subset.items("addresses").chain(subset.items("notReadyAddresses")) {
            endpoint_address(&mut faults, &address);
        }
        let several = subset.value.items("ports").len() > 1;
        for port in subset.items("ports") {
            if several && port.text("name").is_empty() {
                faults.push(Cause::required(port.path("name"), ""));
            }
            port.may_be(&mut faults, "name", names::label);
            port.between(&mut faults, "port", 1, 65_535);
            port.one_of(&mut faults, "protocol", &PROTOCOLS);
        }
    }
    faults
}

fn endpoint_address(faults: &mut Faults, address: &At<'_>) {
    let text = address.text("ip");
    let wrong = ip(text);
    address.must_be(faults, "ip", ip);
    if !wrong.is_empty() {
        faults.push(Cause::invalid(address.path("ip"), text, "must be a valid IP address"));
    }
    if let Some(detail) = special_ip(text) {
        faults.push(Cause::invalid(address.path("ip"), text, detail));
    }
    address.may_be(faults, "hostname", names::label);
    if address.has("nodeName") {
        address.must_be(faults, "nodeName", names::subdomain);
    }
}

pub(in crate::kinds) fn endpoint_slice(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    let kind = root.text("addressType");
    if let Some(old) = old.filter(|old| old.text("addressType") != kind) {
        root.immutable(&mut faults, old, "addressType");
        return faults;
    }
    for endpoint in root.items("endpoints") {
        if endpoint.value.items("addresses").is_empty() {
            faults.push(Cause::required(endpoint.path("addresses"), "must contain at least 1 address"));
        }
        for address in endpoint.items("addresses") {
            slice_address(&mut faults, &address, kind);
        }
        // Unlike those of Endpoints, hostnames of slices may not be empty strings.
        for (field, rule) in [("hostname", names::label as Rule), ("nodeName", names::subdomain)] {
            if endpoint.has(field) {
                endpoint.must_be(&mut faults, field, rule);
            }
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for port in root.items("ports") {
        let name = port.text("name");
        port.may_be(&mut faults, "name", names::label);
        if seen.contains(&name) {
            faults.push(Cause::duplicate(port.path("name"), name));
        }
        seen.push(name);
        port.one_of(&mut faults, "protocol", &PROTOCOLS);
    }
    match kind {
        "" => faults.push(Cause::required("addressType", "")),
        _ => root.one_of(&mut faults, "addressType", &["FQDN", "IPv4", "IPv6"]),
    }
    faults
}

fn slice_address(faults: &mut Faults, address: &At<'_>, kind: &str) {
    let text = address.text("");
    match kind {
        "IPv4" | "IPv6" => {
            address.must_be(faults, "", ip);
            let is_v6 = text.contains(':');
            if ip(text).is_empty() && is_v6 != (kind == "IPv6") {
                faults.push(address.invalid(&format!("must be an {kind} address")));
            }
            if let Some(detail) = special_ip(text) {
                faults.push(Cause::invalid(address.path.clone(), text, detail));
            }
        }
        "FQDN" => address.must_be(faults, "", names::subdomain),
        _ => {}
    }
}

pub(in crate::kinds) fn ingress(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if spec.value.items("rules").is_empty() && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        faults.push(Cause::invalid(spec.path.clone(), Value::Null, detail));
    }
    if spec.has("defaultBackend") {
        backend(&mut faults, &spec.child("defaultBackend"));
    }
    for rule in spec.items("rules") {
        host(&mut faults, &rule);
        for path in rule.child("http").items("paths") {
            ingress_path(&mut faults, &path);
        }
    }
    if spec.has("ingressClassName") {
        spec.must_be(&mut faults, "ingressClassName", names::subdomain);
    }
    faults
}

fn host(faults: &mut Faults, rule: &At<'_>) {
    let text = rule.text("host");
    if text.is_empty() {
        return;
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        faults.push(Cause::invalid(rule.path("host"), text, "must be a DNS name, not an IP address"));
        return;
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    faults
        .extend(names::subdomain(name).iter().map(|detail| Cause::invalid(rule.path("host"), text, detail)));
}

fn ingress_path(faults: &mut Faults, path: &At<'_>) {
    match path.text("pathType") {
        "" => faults.push(Cause::required(path.path("pathType"), "pathType must be specified")),
        "Exact" | "Prefix" => {
            if !path.text("path").starts_with('/') {
                faults.push(Cause::invalid(path.path("path"), path.text("path"), "must be an absolute path"));
            }
        }
        "ImplementationSpecific" => {
            if !path.text("path").is_empty() && !path.text("path").starts_with('/') {
                faults.push(Cause::invalid(path.path("path"), path.text("path"), "must be an absolute path"));
            }
        }
        other => faults.push(Cause::not_supported(
            path.path("pathType"),
            other,
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    backend(faults, &path.child("backend"));
}

fn backend(faults: &mut Faults, backend: &At<'_>) {
    match (backend.has("service"), backend.has("resource")) {
        (false, false) => {
            faults.push(Cause::invalid(backend.path.clone(), "", "resource or service backend is required"));
        }
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            faults.push(Cause::invalid(backend.path.clone(), "", detail));
        }
        (true, false) => {
            let service = backend.child("service");
            service.must_be_named(faults, "name", names::label);
            let port = service.child("port");
            match (port.text("name"), port.int("number").unwrap_or(0)) {
                ("", 0) => faults.push(Cause::required(port.path.clone(), "port name or number is required")),
                ("", _) => port.between(faults, "number", 1, 65_535),
                (_, 0) => port.must_be(faults, "name", port_name),
                _ => {
                    let detail = "cannot set both port name & port number";
                    faults.push(Cause::invalid(port.path.clone(), "", detail));
                }
            }
        }
        (false, true) => {}
    }
}

pub(in crate::kinds) fn ingress_class(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if spec.text("controller").len() > 250 {
        faults.push(Cause::too_long(spec.path("controller"), 250));
    }
    if spec.require(&mut faults, "controller") {
        spec.must_be(&mut faults, "controller", domain_path);
    }
    let parameters = spec.child("parameters");
    if parameters.value.is_object() {
        parameters.require(&mut faults, "kind");
        parameters.require(&mut faults, "name");
        parameters.one_of(&mut faults, "scope", &["Cluster", "Namespace"]);
    }
    if let Some(old) = old {
        At::root(object).immutable(&mut faults, old, "spec.controller");
    }
    faults
}

pub(in crate::kinds) fn network_policy(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    selector::check(&mut faults, &spec.child("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.items(rules) {
            for port in rule.items("ports") {
                policy_port(&mut faults, &port);
            }
            for peer in rule.items(peers) {
                policy_peer(&mut faults, &peer);
            }
        }
    }
    for kind in spec.items("policyTypes").filter(|kind| !["Ingress", "Egress"].contains(&kind.text(""))) {
        faults.push(Cause::not_supported(kind.path.clone(), kind.text(""), &["Ingress", "Egress"]));
    }
    faults
}

fn policy_port(faults: &mut Faults, port: &At<'_>) {
    port.one_of(faults, "protocol", &PROTOCOLS);
    match port.value.at("port") {
        Value::Number(_) => port.between(faults, "port", 1, 65_535),
        Value::String(_) => port.must_be(faults, "port", port_name),
        _ => {}
    }
    if let (Some(end), Some(start)) = (port.int("endPort"), port.int("port"))
        && end < start
    {
        faults.push(Cause::invalid(port.path("endPort"), end, "must be greater than or equal to `port`"));
    }
}

fn policy_peer(faults: &mut Faults, peer: &At<'_>) {
    let given =
        ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|field| peer.has(field)).count();
    if given == 0 {
        faults.push(Cause::required(peer.path.clone(), "must specify a peer"));
    } else if given > 1 && peer.has("ipBlock") {
        let detail = "may not specify both ipBlock and another peer";
        faults.push(Cause::forbidden(peer.path.clone(), detail));
    }
    for field in ["podSelector", "namespaceSelector"] {
        selector::check(faults, &peer.child(field));
    }
    let block = peer.child("ipBlock");
    if block.value.is_object() {
        block.must_be_named(faults, "cidr", cidr);
        for except in block.items("except") {
            except.must_be(faults, "", cidr);
        }
    }
}

pub(in crate::kinds) fn service_cidr(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    match spec.value.items("cidrs").len() {
        0 => faults.push(Cause::required(spec.path("cidrs"), "at least one CIDR required")),
        1 | 2 => {}
        _ => {
            let detail = "may only hold up to 2 values";
            faults.push(spec.child("cidrs").invalid(detail));
        }
    }
    for range in spec.items("cidrs") {
        range.must_be(&mut faults, "", cidr);
    }
    for (range, old) in spec.items("cidrs").zip(old.map_or(&[][..], |old| old.items("spec.cidrs"))) {
        if range.value != old {
            faults.push(range.invalid("field is immutable"));
        }
    }
    faults
}

pub(in crate::kinds) fn ip_address(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.must_be(&mut faults, "metadata.name", ip);
    let parent = root.child("spec.parentRef");
    if parent.value.is_null() {
        faults.push(Cause::required(parent.path.clone(), ""));
    } else {
        parent.require(&mut faults, "resource");
        parent.require(&mut faults, "name");
    }
    if let Some(old) = old {
        root.immutable(&mut faults, old, "spec.parentRef");
    }
    faults
}
