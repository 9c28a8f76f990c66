//! `proxy` of pods, services and nodes: requests go on to what is behind the object, and responses come back.

use std::net::IpAddr;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, header, request};
use rand::Rng as _;
use serde_json::{Value, json};

use super::{Answer, Call};
use crate::admission::{self, Operation};
use crate::error::ApiError;
use crate::http::relay::{Connection, Onward};
use crate::http::respond;
use crate::options::InPod;
use crate::registry::Subresource;
use crate::store::{Key, ShelfId};
use crate::webhook::{Tls, dial};

/// The port of a kubelet that does not name another.
const KUBELET: u16 = 10_250;
/// The types of a node's addresses, in the order in which they are tried.
const PREFERRED: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The name in a request: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, Default, PartialEq)]
struct Wanted<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

impl<'a> Wanted<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let is_valid = !name.is_empty() && matches!(scheme, "" | "http" | "https");
        is_valid.then_some(Self { tls: scheme == "https", name, port })
    }
}

/// Where a request goes.
#[derive(Debug)]
enum Place {
    Pod {
        key: Key,
        address: String,
        port: u16,
    },
    /// `port` is that of the request, which is the kubelet's if it names none.
    Node {
        node: Value,
        port: Option<u16>,
    },
}

pub(super) async fn proxy(call: &Call<'_>) -> Result<Answer, ApiError> {
    let Some(parts) = call.parts else { return Err(ApiError::method_not_allowed()) };
    let key = call.key();
    let rest = Rest::of(&call.info.path, call.resource.namespaced);
    let mut ops = call.ops()?;
    let mut options = json!({});
    if !rest.path.is_empty() {
        options["path"] = json!(rest.path);
    }
    let pass = (Operation::Connect, Some(Subresource::Proxy));
    admission::pass(&mut ops, pass, &key, &mut options).await?;
    let kind = call.resource.singular.as_str();
    let wanted = Wanted::parse(&key.name);
    let wanted =
        wanted.ok_or_else(|| ApiError::bad_request(format!("invalid {kind} request {:?}", key.name)))?;
    let place = match call.resource.kind.as_str() {
        "Pod" => pod(call, &wanted)?,
        "Service" => service(call, &wanted)?,
        _ => node(call, &wanted)?,
    };
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if rest.path.is_empty() && !rest.has_slash && is_read && !parts.headers.contains_key(header::UPGRADE) {
        return Ok(to_slash(parts).into());
    }
    let onward = Onward {
        parts,
        body: call.body.clone(),
        target: rest.target(parts.uri.query()),
        root: rest.root.clone(),
        replaced: forwarded(parts),
        withheld: &[],
    };
    let answered = match connect(call, place, wanted.tls).await {
        Ok(connection) => onward.send(connection).await,
        Err(why) => Err(why),
    };
    let unreachable = |why| ApiError::unavailable(format!("error trying to reach service: {why}"));
    Ok(answered.map_err(unreachable)?.into())
}

/// What follows `proxy` in a path.
#[derive(Debug, PartialEq)]
struct Rest {
    /// The path up to `proxy`.
    root: String,
    /// Without a slash at the beginning; still encoded.
    path: String,
    /// Whether the whole path ends with a slash.
    has_slash: bool,
}

impl Rest {
    fn of(path: &str, namespaced: bool) -> Self {
        // `api/v1/namespaces/NAMESPACE/pods/NAME/proxy` or `api/v1/nodes/NAME/proxy`
        let before = if namespaced { 7 } else { 5 };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (before, after) = parts.split_at(before.min(parts.len()));
        let mut path_there = after.join("/");
        let has_slash = path.ends_with('/');
        if has_slash && !path_there.is_empty() {
            path_there.push('/');
        }
        Self { root: format!("/{}", before.join("/")), path: path_there, has_slash }
    }

    fn target(&self, query: Option<&str>) -> String {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("/{}{query}", self.path)
    }
}

/// Relative links of a page at the root work only if its path ends with a slash.
fn to_slash(parts: &request::Parts) -> Response<respond::Body> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(respond::full(""));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("{}/{query}", parts.uri.path())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// What the other server learns about the request.
fn forwarded(parts: &request::Parts) -> HeaderMap {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let pairs = [
        ("x-forwarded-uri", parts.uri.path()),
        ("x-forwarded-host", host.unwrap_or("localhost")),
        ("x-forwarded-proto", "https"),
    ];
    let header = |(name, value)| Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?));
    pairs.into_iter().filter_map(header).collect()
}

async fn connect(call: &Call<'_>, place: Place, tls: bool) -> Result<Box<dyn Connection>, String> {
    let kubelet = call.server.options.kubelet.as_ref();
    let (host, port, tls) = match (place, kubelet) {
        (Place::Pod { key, port, .. }, Some(kubelet)) => {
            let pod = InPod { namespace: &key.namespace, pod: &key.name, container: None };
            let connection = kubelet.connect(&pod, port)?;
            return secured(Box::new(connection), tls, &key.name).await;
        }
        (Place::Node { node, port }, Some(kubelet)) => {
            return Ok(Box::new(kubelet.connect_node(&node, port)?));
        }
        (Place::Pod { address, port, .. }, None) => (address, port, tls),
        (Place::Node { node, port }, None) => {
            let own = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
            let own = own.and_then(|port| port.try_into().ok()).unwrap_or(KUBELET);
            let port = port.unwrap_or(own);
            (address_of(&node).unwrap_or_default(), port, tls || port == own)
        }
    };
    let connection = dial(&host, port).await?;
    secured(Box::new(connection), tls, &host).await
}

/// Upstream does not check the certificates of pods either.
async fn secured(
    connection: Box<dyn Connection>,
    tls: bool,
    host: &str,
) -> Result<Box<dyn Connection>, String> {
    if !tls {
        return Ok(connection);
    }
    let name = if host.parse::<IpAddr>().is_ok() { host } else { "localhost" };
    Ok(Box::new(Tls::unverified().handshake(connection, name).await?))
}

fn pod(call: &Call<'_>, wanted: &Wanted<'_>) -> Result<Place, ApiError> {
    let key = Key::new(call.namespace(), wanted.name);
    let pod = call.ops()?.get(&key)?.value();
    let mut ports = pod["spec"]["containers"].as_array().into_iter().flatten().flat_map(|container| {
        container["ports"].as_array().into_iter().flatten().filter_map(|port| port["containerPort"].as_u64())
    });
    let port = match wanted.port {
        "" => ports.next().map_or_else(|| usual(wanted.tls).to_string(), |port| port.to_string()),
        port => port.to_owned(),
    };
    let address = pod.pointer("/status/podIPs/0/ip").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !is_reachable(&address) {
        return Err(ApiError::bad_request("address not allowed"));
    }
    Ok(Place::Pod { key, address, port: number(&port)? })
}

fn usual(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn number(port: &str) -> Result<u16, ApiError> {
    let unknown = |_| {
        let why = format!("dial tcp: lookup tcp/{port}: unknown port");
        ApiError::unavailable(format!("error trying to reach service: {why}"))
    };
    port.parse().map_err(unknown)
}

/// Whether an address is one of the network, and not of this machine.
fn is_reachable(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(ip)) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_link_local()
                || ip.is_broadcast())
        }
        Ok(IpAddr::V6(ip)) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local())
        }
        Err(_) => false,
    }
}

/// One of the pods behind a service, any of them.
fn service(call: &Call<'_>, wanted: &Wanted<'_>) -> Result<Place, ApiError> {
    let server = call.server;
    let key = Key::new(call.namespace(), wanted.name);
    let none = |what: &str| ApiError::unavailable(format!("no endpoints available for service {what:?}"));
    let mut port = wanted.port.to_owned();
    if let Ok(number) = wanted.port.parse::<i64>() {
        let service = call.ops()?.get(&key)?.value();
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let declared = ports.find(|declared| declared["port"] == number).ok_or_else(|| {
            let why = format!("no service port {number} found for service {:?}", wanted.name);
            ApiError::unavailable(why)
        })?;
        port = declared["name"].as_str().unwrap_or_default().to_owned();
    }
    let endpoints = server.catalog.get("", "v1", "endpoints").ok_or_else(ApiError::no_such_resource)?;
    let endpoints = server.store.get(&endpoints.shelf, &key).map(|entry| entry.value());
    // The service itself may exist: it is what the request names.
    let missing = || ApiError::not_found(call.resource.named(wanted.name));
    let endpoints = endpoints.ok_or_else(missing)?;
    let subsets = endpoints["subsets"].as_array().map(Vec::as_slice).unwrap_or_default();
    if subsets.is_empty() {
        return Err(none(wanted.name));
    }
    let pods: Vec<Place> = subsets.iter().flat_map(|subset| pods_of(call, subset, &port)).collect();
    if pods.is_empty() {
        return Err(none(&call.key().name));
    }
    let chosen = server.rng.lock().random_range(0..pods.len());
    pods.into_iter().nth(chosen).ok_or_else(|| none(&call.key().name))
}

/// The pods of a subset of Endpoints that has a port of this name. Addresses that are no pod's are left out: whoever may
/// write Endpoints could otherwise reach whatever this server reaches.
fn pods_of(call: &Call<'_>, subset: &Value, port: &str) -> Vec<Place> {
    let mut ports = subset["ports"].as_array().into_iter().flatten();
    let named = ports.find(|declared| declared["name"].as_str().unwrap_or_default() == port);
    let number = named.and_then(|port| port["port"].as_u64()).and_then(|port| u16::try_from(port).ok());
    let Some(port) = number else { return Vec::new() };
    let place = |address: &Value| {
        let (of, ip) = (&address["targetRef"], address["ip"].as_str()?);
        let is_pod = of["kind"] == "Pod" && of["namespace"] == call.namespace();
        let key = Key::new(call.namespace(), is_pod.then(|| of["name"].as_str())??);
        let pod = call.server.store.get(&ShelfId::new("", "pods"), &key)?.value();
        let mut own = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let is_its = own.any(|own| own["ip"] == ip);
        is_its.then(|| Place::Pod { key, address: ip.to_owned(), port })
    };
    subset["addresses"].as_array().into_iter().flatten().filter_map(place).collect()
}

fn node(call: &Call<'_>, wanted: &Wanted<'_>) -> Result<Place, ApiError> {
    let node = call.ops()?.get(&Key::new("", wanted.name))?.value();
    let port = match wanted.port {
        "" => None,
        port => Some(number(port)?),
    };
    if call.server.options.kubelet.is_none() {
        let address = address_of(&node).ok_or_else(|| {
            ApiError::unexplained("no preferred addresses found; known addresses: []".to_owned())
        })?;
        if address.parse::<IpAddr>().is_ok() && !is_reachable(&address) {
            return Err(ApiError::bad_request("address not allowed"));
        }
    }
    Ok(Place::Node { node, port })
}

fn address_of(node: &Value) -> Option<String> {
    let all = node["status"]["addresses"].as_array()?;
    let of_type = |wanted: &&str| all.iter().find(|address| address["type"] == **wanted);
    Some(PREFERRED.iter().find_map(of_type)?["address"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_a_scheme_and_a_port() {
        #[rustfmt::skip]
        let table = [
            ("a",            Some((false, "a", ""))),
            ("a:80",         Some((false, "a", "80"))),
            ("a:web",        Some((false, "a", "web"))),
            ("https:a:443",  Some((true,  "a", "443"))),
            ("http:a:",      Some((false, "a", ""))),
            ("ftp:a:21",     None),
            (":80",          None),
            ("a:b:c:d",      None),
        ];
        for (text, want) in table {
            let want = want.map(|(tls, name, port)| Wanted { tls, name, port });
            assert_eq!(Wanted::parse(text), want, "{text}");
        }
    }

    #[test]
    fn what_follows_goes_on_as_it_was_written() {
        #[rustfmt::skip]
        let table = [
            // path                                               root                                   there
            ("/api/v1/namespaces/a/pods/b/proxy",         true,  "/api/v1/namespaces/a/pods/b/proxy",    "/"),
            ("/api/v1/namespaces/a/pods/b/proxy/",        true,  "/api/v1/namespaces/a/pods/b/proxy",    "/"),
            ("/api/v1/namespaces/a/pods/b/proxy/x%2Fy/z", true,  "/api/v1/namespaces/a/pods/b/proxy",    "/x%2Fy/z"),
            ("/api/v1/namespaces/a/services/b:w/proxy/x/", true, "/api/v1/namespaces/a/services/b:w/proxy", "/x/"),
            ("/api/v1/nodes/n/proxy/healthz",             false, "/api/v1/nodes/n/proxy",                "/healthz"),
        ];
        for (path, namespaced, root, there) in table {
            let rest = Rest::of(path, namespaced);
            assert_eq!((rest.root.as_str(), rest.target(None).as_str()), (root, there), "{path}");
        }
        assert_eq!(Rest::of("/api/v1/nodes/n/proxy/a", false).target(Some("b=c")), "/a?b=c");
    }

    #[test]
    fn addresses_of_this_machine_are_not_reached() {
        for (address, is_it) in [
            ("10.0.0.1", true),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("fd00::1", true),
            ("::1", false),
            ("", false),
        ] {
            assert_eq!(is_reachable(address), is_it, "{address}");
        }
    }
}
