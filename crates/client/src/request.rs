//! API requests: a verb on a resource, with parameters and body; and their HTTP form.

use std::fmt;

use bytes::Bytes;
use flyball_api::{Key, Object, ResourceType, ResourceVersion, Uid};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use smol_str::SmolStr;

use crate::encoding;
use crate::transport::BoxError;

/// A verb, as in RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Whether it may change the cluster.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// As RBAC and audit logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    pub(crate) fn method(self) -> http::Method {
        match self {
            Self::Get | Self::List | Self::Watch => http::Method::GET,
            Self::Create => http::Method::POST,
            Self::Update => http::Method::PUT,
            Self::Patch => http::Method::PATCH,
            Self::Delete | Self::DeleteCollection => http::Method::DELETE,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The requested format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accept {
    #[default]
    Json,
    /// Only the metadata of an object, or of each object of a watch.
    Metadata,
    /// Only the metadata of each object of a list.
    MetadataList,
    /// Groups, versions and resources in one document.
    Discovery,
}

impl Accept {
    /// The format for a response that is decoded as `O`.
    pub fn of<O: Object>() -> Self {
        if O::IS_METADATA { Self::Metadata } else { Self::Json }
    }

    /// With `protobuf`, that is requested before JSON.
    pub(crate) fn header(self, protobuf: bool) -> HeaderValue {
        // Plain JSON is last, for servers (and aggregated APIs) that support no other format.
        HeaderValue::from_static(match (self, protobuf) {
            (Self::Json, false) => "application/json",
            (Self::Json, true) => "application/vnd.kubernetes.protobuf,application/json",
            (Self::Metadata, false) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Metadata, true) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::MetadataList, false) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::MetadataList, true) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Discovery, _) => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                 application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
            }
        })
    }
}

/// One request to the API.
#[derive(Debug, Clone)]
pub struct Request {
    pub verb: Verb,
    pub resource: ResourceType,
    /// Absent for cluster-scoped resources and for requests across namespaces.
    pub namespace: Option<SmolStr>,
    pub name: Option<SmolStr>,
    /// Such as `status`.
    pub subresource: Option<SmolStr>,
    pub query: Vec<(&'static str, SmolStr)>,
    pub body: Option<Bytes>,
    pub content_type: &'static str,
    pub accept: Accept,
    /// Whether the caller can read protobuf.
    reads_protobuf: bool,
}

/// The default content type.
pub(crate) const JSON: &str = "application/json";

impl Request {
    /// A request on a collection (in one namespace, or in all).
    pub fn collection(verb: Verb, resource: &ResourceType, namespace: Option<&str>) -> Self {
        Self {
            verb,
            resource: resource.clone(),
            namespace: namespace.filter(|n| !n.is_empty()).map(SmolStr::from),
            name: None,
            subresource: None,
            query: Vec::new(),
            body: None,
            content_type: JSON,
            accept: Accept::Json,
            reads_protobuf: false,
        }
    }

    /// A request on one object, or on a subresource of it.
    pub fn object(verb: Verb, resource: &ResourceType, key: &Key, subresource: Option<&str>) -> Self {
        let mut request = Self::collection(verb, resource, Some(&key.namespace));
        request.name = Some(key.name.clone());
        request.subresource = subresource.map(SmolStr::from);
        request
    }

    /// A patch of one object, or of a subresource of it; its document is the body.
    pub fn patch(resource: &ResourceType, key: &Key, subresource: Option<&str>, patch: &Patch) -> Self {
        let mut request = Self::object(Verb::Patch, resource, key, subresource);
        request.content_type = patch.content_type();
        match patch {
            Patch::Apply { manager, force, .. } => {
                let request = request.param("fieldManager", manager.clone());
                // Without it the server refuses conflicts; `force=false` would be another URL in the audit log than upstream's.
                if *force { request.param("force", "true") } else { request }
            }
            _ => request,
        }
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub fn param(mut self, name: &'static str, value: impl Into<SmolStr>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Sets the format of the response.
    pub fn accept(mut self, accept: Accept) -> Self {
        self.accept = accept;
        self
    }

    /// Sets whether the response may be protobuf, if the client and the resource support it.
    pub(crate) fn reading_protobuf(mut self, reads: bool) -> Self {
        self.reads_protobuf = reads;
        self
    }

    /// Whether protobuf is requested by a client that supports it. Metadata of any resource is a built-in kind.
    pub(crate) fn offers_protobuf(&self) -> bool {
        self.reads_protobuf
            && match self.accept {
                Accept::Json => encoding::is_offered(&self.resource, self.subresource.as_deref()),
                Accept::Metadata | Accept::MetadataList => true,
                Accept::Discovery => false,
            }
    }

    pub(crate) fn target(&self) -> String {
        let mut target =
            self.resource.path(self.namespace.as_deref(), self.name.as_deref(), self.subresource.as_deref());
        if !self.query.is_empty() {
            target.push('?');
            let start = target.len();
            let mut query = form_urlencoded::Serializer::for_suffix(target, start);
            query.extend_pairs(self.query.iter().map(|(name, value)| (*name, value.as_str())));
            target = query.finish();
        }
        target
    }

    /// With `protobuf`, that is requested where the request [offers](Self::offers_protobuf) it.
    pub(crate) fn to_http(
        &self,
        user_agent: &HeaderValue,
        protobuf: bool,
    ) -> Result<http::Request<Bytes>, BoxError> {
        let accept = self.accept.header(protobuf && self.offers_protobuf());
        let mut http = http_request(self.verb.method(), self.target(), accept, user_agent)?;
        if let Some(body) = &self.body {
            http.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
            *http.body_mut() = body.clone();
        }
        Ok(http)
    }
}

pub(crate) fn http_request(
    method: http::Method,
    target: String,
    accept: HeaderValue,
    user_agent: &HeaderValue,
) -> Result<http::Request<Bytes>, BoxError> {
    let mut http = http::Request::new(Bytes::new());
    *http.method_mut() = method;
    *http.uri_mut() = http::Uri::try_from(target)?;
    let headers = http.headers_mut();
    headers.reserve(5);
    headers.insert(ACCEPT, accept);
    headers.insert(http::header::USER_AGENT, user_agent.clone());
    Ok(http)
}

/// For errors and logs: `create pods in default`, `update deployments.apps/status default/web`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
            (None, Some(name)) => write!(f, " {name}"),
            (Some(namespace), None) => write!(f, " in {namespace}"),
            (None, None) => Ok(()),
        }
    }
}

/// Which objects of a collection, and how many at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// `labelSelector`.
    pub label_selector: Option<SmolStr>,
    /// `fieldSelector`.
    pub field_selector: Option<SmolStr>,
    /// The most objects in one response.
    pub limit: Option<u32>,
    pub continue_: Option<SmolStr>,
    /// Absent: the newest state. `0`: any state that the server has cached.
    pub resource_version: Option<SmolStr>,
    /// `NotOlderThan` or `Exact`.
    pub resource_version_match: Option<&'static str>,
    pub metadata_only: bool,
    /// Whether the list may be protobuf, if the client and the resource support it.
    pub protobuf: bool,
}

impl ListParams {
    pub(crate) fn apply(&self, mut request: Request) -> Request {
        let pairs = [
            ("labelSelector", self.label_selector.clone()),
            ("fieldSelector", self.field_selector.clone()),
            ("limit", self.limit.map(|l| smol_str::format_smolstr!("{l}"))),
            ("continue", self.continue_.clone()),
            ("resourceVersion", self.resource_version.clone()),
            ("resourceVersionMatch", self.resource_version_match.map(SmolStr::new_static)),
        ];
        request.query.extend(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        if self.metadata_only {
            request.accept = Accept::MetadataList;
        }
        request.reading_protobuf(self.protobuf)
    }
}

/// What to watch, and from where on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchParams {
    pub namespace: Option<SmolStr>,
    /// `labelSelector`.
    pub label_selector: Option<SmolStr>,
    /// `fieldSelector`.
    pub field_selector: Option<SmolStr>,
    pub resource_version: Option<SmolStr>,
    /// Begin with the current objects and a bookmark (`sendInitialEvents`): a streaming list.
    pub send_initial_events: bool,
    /// The server ends the watch after this many seconds.
    pub timeout_seconds: Option<u32>,
    pub bookmarks: bool,
    pub metadata_only: bool,
    /// Whether events may be protobuf, if the client and the resource support it.
    pub protobuf: bool,
}

impl WatchParams {
    pub(crate) fn request(&self, resource: &ResourceType) -> Request {
        let mut request = Request::collection(Verb::Watch, resource, self.namespace.as_deref());
        let pairs = [
            ("watch", Some(SmolStr::new_static("true"))),
            ("labelSelector", self.label_selector.clone()),
            ("fieldSelector", self.field_selector.clone()),
            ("resourceVersion", self.resource_version.clone()),
            // The server requires both together.
            ("sendInitialEvents", self.send_initial_events.then_some(SmolStr::new_static("true"))),
            ("resourceVersionMatch", self.send_initial_events.then_some(SmolStr::new_static("NotOlderThan"))),
            (
                "allowWatchBookmarks",
                (self.bookmarks || self.send_initial_events).then_some(SmolStr::new_static("true")),
            ),
            ("timeoutSeconds", self.timeout_seconds.map(|s| smol_str::format_smolstr!("{s}"))),
        ];
        request.query.extend(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        if self.metadata_only {
            request.accept = Accept::Metadata;
        }
        request.reading_protobuf(self.protobuf)
    }
}

/// A change to an object that does not send all of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// A strategic merge patch, which merges lists by key.
    Strategic(Value),
    Apply {
        manager: SmolStr,
        /// Take fields from other managers.
        force: bool,
        object: Value,
    },
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json-patch+json",
            Self::Merge(_) => "application/merge-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
            // JSON is YAML.
            Self::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub fn document(&self) -> &Value {
        match self {
            Self::Json(value) | Self::Merge(value) | Self::Strategic(value) => value,
            Self::Apply { object, .. } => object,
        }
    }
}

/// The propagation policy of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// Dependents stay, without an owner.
    Orphan,
    Background,
    Foreground,
}

/// The options and preconditions of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Only the object with this uid.
    pub uid: Option<Uid>,
    pub resource_version: Option<ResourceVersion>,
    /// Absent: the resource's default.
    pub propagation: Option<Propagation>,
    /// Absent: the object's own grace period.
    pub grace_period: Option<i64>,
}

impl DeleteOptions {
    /// Only the object with this uid.
    pub fn uid(uid: &Uid) -> Self {
        Self { uid: Some(uid.clone()), ..Self::default() }
    }

    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut body = serde_json::Map::new();
        body.insert("kind".into(), "DeleteOptions".into());
        body.insert("apiVersion".into(), "v1".into());
        if let Some(seconds) = self.grace_period {
            body.insert("gracePeriodSeconds".into(), seconds.into());
        }
        if self.uid.is_some() || self.resource_version.is_some() {
            let mut preconditions = serde_json::Map::new();
            if let Some(uid) = &self.uid {
                preconditions.insert("uid".into(), uid.to_string().into());
            }
            if let Some(version) = &self.resource_version {
                preconditions.insert("resourceVersion".into(), version.to_string().into());
            }
            body.insert("preconditions".into(), preconditions.into());
        }
        if let Some(propagation) = self.propagation {
            let policy = match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
            };
            body.insert("propagationPolicy".into(), policy.into());
        }
        Value::Object(body)
    }
}

#[cfg(test)]
#[path = "tests/request.rs"]
mod tests;
