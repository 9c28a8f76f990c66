//! The objects that every cluster has from the start: namespaces, roles, priority classes, the `kubernetes` service and the
//! service address ranges. Existing ones are not changed, but for the endpoints of that service.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::life::{Ops, at_once};
use crate::meta;
use crate::registry::User;
use crate::server::Inner;
use crate::store::Key;

/// Where kube-apiserver listens unless told otherwise.
const USUAL_PORT: u16 = 6443;
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

pub(crate) fn system_user() -> User {
    User { name: "system:apiserver".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() }
}

pub(crate) fn run(server: &Inner) -> Result<(), ApiError> {
    for name in NAMESPACES {
        ensure(server, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))?;
    }
    for object in crate::kinds::bootstrap(&server.options.feature_gates) {
        ensure(server, object)?;
    }
    // The day since when uses of tokens without expiry are tracked.
    let today = server.now().strftime("%Y-%m-%d").to_string();
    ensure(
        server,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": today},
               "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"}}),
    )?;
    trust(server)?;
    let ranges: Vec<String> = server.options.service_cidrs.iter().map(ToString::to_string).collect();
    ensure(
        server,
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
               "spec": {"cidrs": ranges}}),
    )?;
    server.addresses.load(server);
    let endpoint = server.options.endpoint;
    if let Some(first) = server.addresses.first() {
        let port = endpoint.map_or(USUAL_PORT, |endpoint| endpoint.port());
        ensure(
            server,
            json!({"apiVersion": "v1", "kind": "Service",
                   "metadata": {"name": "kubernetes", "namespace": "default",
                                "labels": {"component": "apiserver", "provider": "kubernetes"}},
                   "spec": {"type": "ClusterIP", "clusterIP": first.to_string(), "sessionAffinity": "None",
                            "ipFamilyPolicy": "SingleStack",
                            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]}}),
        )?;
    }
    match endpoint {
        Some(endpoint) => lead_here(server, endpoint),
        None => Ok(()),
    }
}

/// Tells servers that delegate authentication to this one whom it trusts, and by what they recognise it.
fn trust(server: &Inner) -> Result<(), ApiError> {
    let mut data = serde_json::Map::new();
    let mut say = |name: &str, text: &str| drop(data.insert(name.to_owned(), json!(text)));
    if let Some(authorities) = &server.options.client_ca {
        say("client-ca-file", authorities);
    }
    if let Some(proxy) = &server.options.front_proxy {
        say("requestheader-client-ca-file", &proxy.authority);
        say("requestheader-allowed-names", &json!([proxy.name]).to_string());
        say("requestheader-username-headers", r#"["X-Remote-User"]"#);
        say("requestheader-uid-headers", r#"["X-Remote-Uid"]"#);
        say("requestheader-group-headers", r#"["X-Remote-Group"]"#);
        say("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#);
    }
    if data.is_empty() {
        return Ok(());
    }
    own(
        server,
        "kube-system",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
               "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"}}),
    )
}

/// Makes the `kubernetes` service lead to this server. Clients may not write loopback addresses into such objects, but where the
/// server listens on no other, that is where it can be reached.
fn lead_here(server: &Inner, endpoint: SocketAddr) -> Result<(), ApiError> {
    let (ip, port) = (endpoint.ip(), endpoint.port());
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    own(
        server,
        "default",
        json!({"apiVersion": "v1", "kind": "Endpoints",
               "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
               "subsets": [{"addresses": [{"ip": ip}], "ports": ports}]}),
    )?;
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    own(
        server,
        "default",
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
               "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
               "addressType": family, "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}], "ports": ports}),
    )
}

/// Writes an object that only this server changes.
fn own(server: &Inner, namespace: &str, object: Value) -> Result<(), ApiError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let Some(resource) = server.catalog.by_kind(text("apiVersion"), text("kind")) else { return Ok(()) };
    let user = system_user();
    let mut ops = Ops::internal(server, &resource, &user);
    ops.manager = "kube-apiserver";
    let object = ops.decode(object)?;
    ops.write_own(namespace, object)
}

/// Creates an object unless it exists.
fn ensure(server: &Inner, object: Value) -> Result<(), ApiError> {
    let version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    // A kind that is not served has no objects.
    let Some(resource) = server.catalog.by_kind(&version, &kind) else { return Ok(()) };
    let namespace = meta::text(&object, "namespace").to_owned();
    if server.store.get(&resource.shelf, &Key::new(namespace.as_str(), meta::text(&object, "name"))).is_some()
    {
        return Ok(());
    }
    let user = system_user();
    let mut ops = Ops::internal(server, &resource, &user);
    ops.manager = "kube-apiserver";
    let object = ops.decode(object)?;
    match at_once(ops.create(&namespace, object)) {
        Ok(_) => Ok(()),
        Err(error) if error.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}
