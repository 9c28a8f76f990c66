//! Generic verbs for all resources of a server: discovery, lists, and requests on JSON values.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::ResourceType;
use futures::StreamExt as _;
use http::Method;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{ApiClient, NoAnswer};

/// Attempts if the connection breaks.
const ATTEMPTS: usize = 4;
/// Concurrent requests of a discovery or a snapshot.
pub const FAN_OUT: usize = 8;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{method} {path}: {code} {message}")]
    Status { code: u16, method: Method, path: String, message: String },
    #[error("{method} {path}")]
    NoAnswer {
        method: Method,
        path: String,
        #[source]
        source: NoAnswer,
    },
    /// The server has no such resource or kind.
    #[error("no such {0}")]
    Unknown(String),
    /// The request could not be serialized.
    #[error("malformed request")]
    Malformed(#[from] http::Error),
}

impl Error {
    /// The HTTP status, if the server gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The content types that a request body may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Json,
    /// RFC 6902.
    JsonPatch,
    /// RFC 7386.
    MergePatch,
    StrategicPatch,
}

impl Content {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::JsonPatch => "application/json-patch+json",
            Self::MergePatch => "application/merge-patch+json",
            Self::StrategicPatch => "application/strategic-merge-patch+json",
        }
    }
}

/// A request. `tolerate` lists error codes that are not errors for the caller.
pub struct Call<'a> {
    method: Method,
    path: &'a str,
    body: Option<(Bytes, &'a str)>,
    headers: Vec<(&'static str, String)>,
    tolerate: &'a [u16],
}

impl<'a> Call<'a> {
    /// A request without a body.
    pub fn new(method: Method, path: &'a str) -> Self {
        Self { method, path, body: None, headers: Vec::new(), tolerate: &[] }
    }

    pub fn body(self, body: &Value, content: Content) -> Self {
        self.raw_body(body.to_string(), content.media_type())
    }

    pub fn raw_body(mut self, body: impl Into<Bytes>, media_type: &'a str) -> Self {
        self.body = Some((body.into(), media_type));
        self
    }

    /// With a further header; may be repeated.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Error codes that are not errors for the caller.
    pub fn tolerate(mut self, codes: &'a [u16]) -> Self {
        self.tolerate = codes;
        self
    }

    fn request(&self) -> Result<http::Request<Bytes>, http::Error> {
        let mut request =
            http::Request::builder().method(&self.method).uri(self.path).header("accept", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let Some((body, media_type)) = &self.body else { return request.body(Bytes::new()) };
        request.header("content-type", *media_type).body(body.clone())
    }
}

/// A resource that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for core.
    pub group: String,
    /// `v1`, `apps/v1`, …
    pub group_version: String,
    /// `/api/v1`, `/apis/apps/v1`, …
    pub path: String,
    pub name: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl Resource {
    /// The same as a type of the cache.
    pub fn as_type(&self) -> ResourceType {
        let (_, version) = self.group_version.rsplit_once('/').unwrap_or(("", &self.group_version));
        ResourceType {
            group: self.group.as_str().into(),
            version: version.into(),
            plural: self.name.as_str().into(),
            kind: self.kind.as_str().into(),
            namespaced: self.namespaced,
        }
    }

    /// The path of a collection, an object or a subresource.
    pub fn url(&self, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> String {
        let mut url = self.path.clone();
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            url.push_str("/namespaces/");
            url.push_str(namespace);
        }
        for part in [Some(self.name.as_str()), name, subresource].into_iter().flatten() {
            url.push('/');
            url.push_str(part);
        }
        url
    }

    /// Whether the server allows `verb`.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

#[derive(Default)]
struct Catalogue {
    by_kind: BTreeMap<(String, String), Arc<Resource>>,
    by_name: BTreeMap<String, Arc<Resource>>,
    preferred: Vec<Arc<Resource>>,
}

/// A server and its resources.
pub struct Api {
    client: Arc<dyn ApiClient>,
    catalogue: RwLock<Arc<Catalogue>>,
}

impl Api {
    /// Creates a client and runs discovery.
    pub async fn discover(client: Arc<dyn ApiClient>) -> Result<Self, Error> {
        let api = Self { client, catalogue: RwLock::default() };
        api.refresh().await?;
        Ok(api)
    }

    /// Runs discovery again; custom resources come and go.
    pub async fn refresh(&self) -> Result<(), Error> {
        let groups: Groups = decode(self.get("/apis").await?);
        let mut versions = vec![(String::new(), "v1".to_owned(), "/api/v1".to_owned())];
        for preferred in [true, false] {
            for group in &groups.groups {
                for version in &group.versions {
                    if (version.group_version == group.preferred_version.group_version) == preferred {
                        let path = format!("/apis/{}", version.group_version);
                        versions.push((group.name.clone(), version.group_version.clone(), path));
                    }
                }
            }
        }
        let lists: Vec<_> = futures::stream::iter(versions)
            .map(|(group, group_version, path)| async move {
                // A group whose server is unavailable has no resources for now.
                let list = self.get(&path).await.map(decode::<Resources>).unwrap_or_default();
                (group, group_version, path, list)
            })
            .buffered(FAN_OUT)
            .collect()
            .await;
        let mut catalogue = Catalogue::default();
        for (group, group_version, path, list) in lists {
            for found in list.resources.into_iter().filter(|r| !r.name.contains('/')) {
                catalogue.add(Resource {
                    group: group.clone(),
                    group_version: group_version.clone(),
                    path: path.clone(),
                    name: found.name,
                    kind: found.kind,
                    namespaced: found.namespaced,
                    verbs: found.verbs,
                });
            }
        }
        *self.catalogue.write() = Arc::new(catalogue);
        Ok(())
    }

    /// The [state](ApiClient::state) of the server.
    pub fn state(&self) -> Option<u64> {
        self.client.state()
    }

    /// All resources, each in the server's preferred version, or in another if that lacks it.
    pub fn preferred(&self) -> Vec<Arc<Resource>> {
        self.catalogue.read().preferred.clone()
    }

    /// A resource by its plural name, with or without its group.
    pub async fn resource(&self, name: &str) -> Result<Arc<Resource>, Error> {
        let find = || self.catalogue.read().by_name.get(name).cloned();
        if let Some(found) = find() {
            return Ok(found);
        }
        self.refresh().await?;
        find().ok_or_else(|| Error::Unknown(format!("resource: {name}")))
    }

    /// The resource of an object, by its apiVersion and kind.
    pub async fn resource_of(&self, object: &Value) -> Result<Arc<Resource>, Error> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let key = (text("apiVersion"), text("kind"));
        let find = || self.catalogue.read().by_kind.get(&key).cloned();
        if let Some(found) = find() {
            return Ok(found);
        }
        self.refresh().await?;
        find().ok_or_else(|| Error::Unknown(format!("kind: {} {}", key.0, key.1)))
    }

    /// All objects of a resource; none if the server does not serve it (any more). Items carry kind and apiVersion.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, Error> {
        let mut path = resource.url(namespace, None, None);
        if let Some(selector) = selector {
            path.push_str("?labelSelector=");
            path.push_str(&percent_encode(selector));
        }
        let (code, mut answer) = self.send(Call::new(Method::GET, &path).tolerate(&[404, 405])).await?;
        if code != 200 {
            return Ok(Vec::new());
        }
        let mut items = match answer["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("kind").or_insert_with(|| resource.kind.clone().into());
            item.entry("apiVersion").or_insert_with(|| resource.group_version.clone().into());
        }
        Ok(items)
    }

    /// The same by the resource's name.
    pub async fn list_named(
        &self,
        resource: &str,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<Value>, Error> {
        let resource = self.resource(resource).await?;
        self.list(&resource, namespace, selector).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        Ok(self.send(Call::new(Method::GET, path)).await?.1)
    }

    /// Sends a request; an answer of 400 and above is an error unless the call tolerates it.
    pub async fn send(&self, call: Call<'_>) -> Result<(u16, Value), Error> {
        let mut attempt = 1;
        let answer = loop {
            match self.client.send(call.request()?).await {
                Ok(answer) => break answer,
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(source) => {
                    return Err(Error::NoAnswer { method: call.method, path: call.path.to_owned(), source });
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let code = answer.status().as_u16();
        let body = answer.into_body();
        let value: Value = match serde_json::from_slice(&body) {
            Ok(value) => value,
            Err(_) => Value::String(String::from_utf8_lossy(&body).into_owned()),
        };
        if code < 400 || call.tolerate.contains(&code) {
            return Ok((code, value));
        }
        Err(Error::Status { code, method: call.method, path: call.path.to_owned(), message: message(&value) })
    }
}

impl Catalogue {
    /// Adds a resource; its best version comes first.
    fn add(&mut self, resource: Resource) {
        let resource = Arc::new(resource);
        self.by_kind.insert((resource.group_version.clone(), resource.kind.clone()), Arc::clone(&resource));
        let full = match resource.group.as_str() {
            "" => resource.name.clone(),
            group => format!("{}.{group}", resource.name),
        };
        if let Entry::Vacant(free) = self.by_name.entry(full) {
            free.insert(Arc::clone(&resource));
            self.preferred.push(Arc::clone(&resource));
        }
        // `events` means core's, and `pods` not those of metrics.k8s.io.
        if !matches!(resource.group.as_str(), "events.k8s.io" | "metrics.k8s.io") {
            self.by_name.entry(resource.name.clone()).or_insert(resource);
        }
    }
}

/// The message of a failure: that of its Status, or the beginning of the body.
pub fn message(answer: &Value) -> String {
    match answer {
        Value::Object(status) => {
            status.get("message").and_then(Value::as_str).unwrap_or("no message").to_owned()
        }
        Value::String(text) => text.chars().take(300).collect(),
        other => other.to_string().chars().take(300).collect(),
    }
}

/// For query values: everything but unreserved characters.
pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode<T: Default + for<'de> Deserialize<'de>>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    resources: Vec<Found>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Found {
    name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}
