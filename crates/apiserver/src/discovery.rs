//! Requests that are not for resources: discovery, version, health.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::request;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::aggregation::Delegated;
use crate::error::ApiError;
use crate::health;
use crate::http::negotiate::Accept;
use crate::http::path::RequestInfo;
use crate::http::respond;
use crate::registry::{Subresource, Verbs};
use crate::resource::Resource;
use crate::server::Inner;
use crate::verbs::Answer;

/// Upstream's priorities of groups, by which discovery is sorted.
const PRIORITIES: [(&str, i64); 20] = [
    ("apiregistration.k8s.io", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("resource.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
];
/// The priority of groups with custom resources, and that of their versions.
const CUSTOM: i64 = 1000;
const CUSTOM_VERSION: i64 = 100;
/// The groups of built-in resources that are off by default follow the others.
const OTHER_BUILTIN: i64 = 15_900;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The response to a request that is not about a resource.
pub(crate) fn answer(
    server: &Inner,
    parts: &request::Parts,
    info: &RequestInfo,
    accept: Accept,
) -> Result<Answer, ApiError> {
    if !matches!(parts.method, http::Method::GET | http::Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    let text = parts.headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    let path = info.path.trim_end_matches('/');
    if let Some(page) = server.options.pages.get(path) {
        let shown = page(parts.uri.query().unwrap_or(""));
        let value = shown.map_err(ApiError::bad_request)?;
        return Ok(respond::value(200, &value, accept).into());
    }
    if let Some(response) = health::answer(path, parts.uri.query().unwrap_or("")) {
        return Ok(response.into());
    }
    let value = match path {
        "/.well-known/openid-configuration" => return Ok(crate::oidc::configuration(server)),
        "/openid/v1/jwks" => return Ok(crate::oidc::keys(server)),
        "/metrics" => return Ok(respond::text(200, crate::metrics::page(server)).into()),
        "/version" => version(),
        "/api" | "/apis" if wants_aggregated(text) => {
            let core = path == "/api";
            let name = if core { "aggregated api" } else { "aggregated apis" };
            let bytes = served(server).document(name, |served| aggregated(&served.groups, core));
            return Ok(respond::with_type(200, bytes, AGGREGATED).into());
        }
        "/api" => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server.options.advertise}],
        }),
        "/apis" => {
            let list = |served: &Served| json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&served.groups)});
            return Ok(respond::json(200, served(server).document(path, list), accept).into());
        }
        "" => json!({"paths": paths(&served(server).groups)}),
        _ => {
            if let Some(bytes) = group_or_version(&served(server), path, info) {
                return Ok(respond::json(200, bytes, accept).into());
            }
            let document = crate::openapi::answer(server, path, text, accept);
            return Ok(document.unwrap_or_else(|| respond::text(404, "404 page not found\n")).into());
        }
    };
    Ok(respond::value(200, &value, accept).into())
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35", "gitVersion": "v1.36.4", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, arch()),
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Whether a client accepts aggregated discovery in the version that is served. Older clients (kubectl up to 1.29)
/// prefer `v2beta1`, which upstream removed in 1.35; they get the format that their header names next.
fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let mut parameters = clause.split(';').map(str::trim);
        parameters.next() == Some("application/json")
            && ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
                .iter()
                .all(|wanted| parameters.clone().any(|parameter| parameter == *wanted))
    })
}

/// A version of a group.
enum Version {
    Here(Vec<Arc<Resource>>),
    There(Delegated),
}

impl Version {
    fn priority(&self) -> i64 {
        match self {
            Version::Here(_) => CUSTOM_VERSION,
            Version::There(delegated) => delegated.remote.version_priority,
        }
    }
}

type Versions = BTreeMap<String, Version>;

/// The documents of discovery for the resources that are served now. Clients ask for them far more often than they change.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<Arc<Served>>>);

/// What was served at some time.
struct Served {
    /// The generations of the catalog, and of what other servers serve.
    of: (u64, u64),
    /// In upstream's order.
    groups: Vec<(String, Versions)>,
    /// By path or another name; each is made when it is first asked for.
    documents: Mutex<BTreeMap<String, Bytes>>,
}

impl Served {
    fn document(&self, name: &str, make: impl FnOnce(&Self) -> Value) -> Bytes {
        if let Some(bytes) = self.documents.lock().get(name) {
            return bytes.clone();
        }
        let bytes = Bytes::from(make(self).to_string());
        self.documents.lock().insert(name.to_owned(), bytes.clone());
        bytes
    }
}

/// What is served now.
fn served(server: &Inner) -> Arc<Served> {
    let of = (server.catalog.generation(), server.aggregation.generation());
    let mut cache = server.discovery.0.lock();
    match &*cache {
        Some(served) if served.of == of => Arc::clone(served),
        _ => {
            let groups = by_group(server.catalog.all(), server.aggregation.delegated());
            let fresh = Arc::new(Served { of, groups, documents: Mutex::default() });
            *cache = Some(Arc::clone(&fresh));
            fresh
        }
    }
}

/// Resources by group, then version; groups in upstream's order.
fn by_group(resources: Vec<Arc<Resource>>, delegated: Vec<Delegated>) -> Vec<(String, Versions)> {
    let mut out: Vec<(String, i64, Versions)> = Vec::new();
    for resource in resources {
        let group = resource.group.as_str();
        let place = out.iter().position(|(known, ..)| known == group).unwrap_or_else(|| {
            let known = PRIORITIES.iter().find(|(known, _)| *known == group).map(|(_, priority)| *priority);
            let usual = if resource.custom.is_some() { CUSTOM } else { OTHER_BUILTIN };
            out.push((group.to_owned(), known.unwrap_or(usual), BTreeMap::new()));
            out.len() - 1
        });
        let version = out[place].2.entry(resource.version.to_string());
        if let Version::Here(list) = version.or_insert_with(|| Version::Here(Vec::new())) {
            list.push(resource);
        }
    }
    for delegated in delegated {
        let (group, version) = (delegated.remote.group.to_string(), delegated.remote.version.to_string());
        let priority = delegated.remote.group_priority;
        let place = out.iter().position(|(known, ..)| *known == group).unwrap_or_else(|| {
            out.push((group, priority, BTreeMap::new()));
            out.len() - 1
        });
        out[place].1 = out[place].1.max(priority);
        out[place].2.insert(version, Version::There(delegated));
    }
    out.sort_by_key(|(_, priority, _)| std::cmp::Reverse(*priority));
    out.into_iter().map(|(group, _, versions)| (group, versions)).collect()
}

/// How versions of a group are ranked; the highest is preferred: stable, beta, alpha, each by its numbers (`v2`, `v1`,
/// `v1beta2`, `v1beta1`), and then all other names in alphabetical order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Other(std::cmp::Reverse<String>),
    Usual { stability: Stability, major: u64, minor: u64 },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stability {
    Alpha,
    Beta,
    Stable,
}

impl Priority {
    pub(crate) fn of(version: &str) -> Self {
        Self::usual(version).unwrap_or_else(|| Self::Other(std::cmp::Reverse(version.to_owned())))
    }

    fn usual(version: &str) -> Option<Self> {
        let number =
            |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let rest = version.strip_prefix('v')?;
        let split = |word| rest.split_once(word);
        let (stability, major, minor) = match (split("alpha"), split("beta")) {
            (Some((major, minor)), _) => (Stability::Alpha, number(major)?, number(minor)?),
            (_, Some((major, minor))) => (Stability::Beta, number(major)?, number(minor)?),
            _ => (Stability::Stable, number(rest)?, 0),
        };
        Some(Self::Usual { stability, major, minor })
    }
}

/// Versions, the preferred one first.
fn ordered(versions: &Versions) -> Vec<(&String, &Version)> {
    let mut list: Vec<(&String, &Version)> = versions.iter().collect();
    list.sort_by_key(|(name, version)| std::cmp::Reverse((version.priority(), Priority::of(name))));
    list
}

fn group_value(group: &str, versions: &Versions) -> Value {
    let entry = |(version, _): &(&String, &Version)| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = ordered(versions).iter().map(entry).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

fn groups(all: &[(String, Versions)]) -> Vec<Value> {
    all.iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_value(group, versions))
        .collect()
}

fn group_or_version(served: &Served, path: &str, info: &RequestInfo) -> Option<Bytes> {
    if !(info.path.starts_with("/api/") || info.path.starts_with("/apis/")) {
        return None;
    }
    let (group, versions) = served.groups.iter().find(|(group, _)| *group == info.group.as_str())?;
    if info.version.is_empty() {
        let one = |_: &Served| {
            let mut value = group_value(group, versions);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            value
        };
        return Some(served.document(path, one));
    }
    // Requests for other servers do not arrive here.
    let Some(Version::Here(resources)) = versions.get(info.version.as_str()) else { return None };
    let list = |_: &Served| {
        let list: Vec<Value> = resources.iter().flat_map(|resource| plain(resource)).collect();
        let group_version = crate::resource::join(group, &info.version);
        let mut out = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
        if !group.is_empty() {
            out["apiVersion"] = json!("v1");
        }
        out
    };
    Some(served.document(path, list))
}

/// A resource and its subresources in plain discovery.
fn plain(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verb_names(),
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    if resource.verbs != Verbs::CreateOnly && resource.verbs != Verbs::Read {
        main["storageVersionHash"] = json!(storage_hash(resource));
    }
    let subs = resource.subresources.iter().map(|sub| {
        let (group, version, kind) = sub_kind(resource, *sub);
        let mut value = json!({
            "name": format!("{}/{}", resource.plural, sub.segment()), "singularName": "",
            "namespaced": resource.namespaced, "kind": kind, "verbs": sub_verbs(*sub),
        });
        if group != resource.group || version != resource.version {
            value["group"] = json!(group);
            value["version"] = json!(version);
        }
        value
    });
    std::iter::once(main).chain(subs).collect()
}

/// A hash of the storage encoding; clients only compare it.
fn storage_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let text = format!("{}/{}", resource.stored_version, resource.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}

fn sub_kind(resource: &Resource, sub: Subresource) -> (&str, &str, &str) {
    match sub {
        Subresource::Scale => ("autoscaling", "v1", "Scale"),
        Subresource::Eviction => ("policy", "v1", "Eviction"),
        Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest"),
        Subresource::Binding => (&resource.group, &resource.version, "Binding"),
        Subresource::Exec => (&resource.group, &resource.version, "PodExecOptions"),
        Subresource::Attach => (&resource.group, &resource.version, "PodAttachOptions"),
        Subresource::PortForward => (&resource.group, &resource.version, "PodPortForwardOptions"),
        Subresource::Proxy => match resource.kind.as_str() {
            "Node" => (&resource.group, &resource.version, "NodeProxyOptions"),
            "Service" => (&resource.group, &resource.version, "ServiceProxyOptions"),
            _ => (&resource.group, &resource.version, "PodProxyOptions"),
        },
        _ => (&resource.group, &resource.version, &resource.kind),
    }
}

fn sub_verbs(sub: Subresource) -> &'static [&'static str] {
    match sub {
        Subresource::Eviction | Subresource::Binding | Subresource::Token => &["create"],
        Subresource::Finalize => &["update"],
        Subresource::Log => &["get"],
        Subresource::Exec | Subresource::Attach | Subresource::PortForward => &["create", "get"],
        Subresource::Proxy => &["create", "delete", "get", "patch", "update"],
        _ => &["get", "patch", "update"],
    }
}

fn aggregated(all: &[(String, Versions)], core: bool) -> Value {
    let items: Vec<Value> = all
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = ordered(versions)
                .into_iter()
                .map(|(name, version)| aggregated_version(name, version))
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_version(name: &str, version: &Version) -> Value {
    let current =
        |resources: Vec<Value>| json!({"version": name, "resources": resources, "freshness": "Current"});
    match version {
        Version::Here(resources) => current(resources.iter().map(|r| aggregated_resource(r)).collect()),
        Version::There(Delegated { resources: Some(resources), .. }) => current(resources.clone()),
        Version::There(_) => json!({"version": name, "freshness": "Stale"}),
    }
}

fn aggregated_resource(resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut value = json!({
        "resource": resource.plural, "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": scope, "singularResource": resource.singular, "verbs": resource.verb_names(),
    });
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
    let subs: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let (group, version, name) = sub_kind(resource, *sub);
            json!({"subresource": sub.segment(), "responseKind": kind(group, version, name), "verbs": sub_verbs(*sub)})
        })
        .collect();
    if !subs.is_empty() {
        value["subresources"] = json!(subs);
    }
    value
}

fn paths(all: &[(String, Versions)]) -> Vec<String> {
    let mut out = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in all.iter().filter(|(group, _)| !group.is_empty()) {
        out.push(format!("/apis/{group}"));
        out.extend(versions.keys().map(|version| format!("/apis/{group}/{version}")));
    }
    out.extend(
        [
            "/.well-known/openid-configuration",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mixed = [
            "foo10",
            "v1alpha1",
            "v1",
            "v11beta2",
            "v10beta3",
            "v2",
            "v12alpha1",
            "v10",
            "foo1",
            "v3beta1",
            "v1beta2",
            "v1beta1",
        ];
        let mixed = mixed.iter().map(|name| ((*name).to_owned(), Version::Here(Vec::new()))).collect();
        let want = "v10 v2 v1 v11beta2 v10beta3 v3beta1 v1beta2 v1beta1 v12alpha1 v1alpha1 foo1 foo10";
        let order: Vec<&str> = ordered(&mixed).into_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order.join(" "), want);
    }

    #[test]
    fn aggregated_discovery_is_for_those_who_ask_for_its_present_version() {
        #[rustfmt::skip]
        let table = [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",      true),
            ("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io",                    true),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", false),
            ("application/json",                                                                           false),
            ("",                                                                                           false),
        ];
        for (accept, want) in table {
            assert_eq!(wants_aggregated(accept), want, "{accept}");
        }
    }
}
