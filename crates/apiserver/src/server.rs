//! The server: a tower service over the store. Requests pass authentication, authorization and audit; then they are dispatched to
//! the verbs, or to discovery, health and version.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use http::{Request, Response, request};
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::addresses::Addresses;
use crate::admission::Registered;
use crate::aggregation::{self, Aggregation, Remote};
use crate::audit::{Audit, Record, Stage};
use crate::authn::{Authenticator, KeyError};
use crate::authz::Authorizer;
use crate::error::ApiError;
use crate::expiry::Expiry;
use crate::http::body;
use crate::http::message;
use crate::http::negotiate::{Accept, Offered};
use crate::http::path::{self, RequestInfo};
use crate::http::query::Query;
use crate::http::respond::{self, Body, BoxError};
use crate::http::spdy;
use crate::http::websocket::Handshake;
use crate::kinds;
use crate::life::Notes;
use crate::metrics::Requests;
use crate::options::Options;
use crate::registry::User;
use crate::resource::{Catalog, Resource};
use crate::selector;
use crate::store::{Compacted, Facets, Key, OpenError, Store};
use crate::verbs::{self, Answer, Call};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An unknown feature gate or API version.
    #[error("{0}")]
    Features(String),
    /// The data directory is unusable.
    #[error("the store cannot be opened")]
    Store(#[source] OpenError),
    /// The signing key is unusable.
    #[error("the service account key cannot be used")]
    Key(#[source] KeyError),
    /// The audit file cannot be written.
    #[error("the audit log cannot be written to {path}")]
    Audit { path: String, source: std::io::Error },
    /// Objects that every cluster has could not be created.
    #[error("a bootstrap object was refused")]
    Bootstrap(#[source] ApiError),
}

pub struct Inner {
    pub store: Store,
    pub catalog: Catalog,
    pub options: Options,
    /// The one source of randomness.
    pub rng: Mutex<StdRng>,
    /// The number of generated uids in descending order.
    pub drawn_uids: AtomicU32,
    pub authn: Authenticator,
    pub authz: Authorizer,
    pub audit: Audit,
    /// Service addresses and node ports.
    pub addresses: Addresses,
    pub(crate) expiry: Expiry,
    /// The documents of discovery.
    pub(crate) discovery: crate::discovery::Cache,
    /// Servers that serve a part of the API.
    pub(crate) aggregation: Aggregation,
    /// The policies and webhooks of admission.
    pub(crate) registered: Registered,
    /// How many requests there were.
    pub(crate) requests: Requests,
}

impl Inner {
    pub fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Called after a write: definitions and APIServices change the served resources, roles change permissions.
    pub fn after_write(&self, resource: &Resource, key: &Key) {
        self.aggregation.after_write(self, resource, key);
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("rbac.authorization.k8s.io", _) => self.authz.forget(),
            ("admissionregistration.k8s.io", _) => self.registered.forget(),
            (_, "events") if resource.shelf.group.is_empty() => self.expiry.note(self, key),
            ("apiextensions.k8s.io", "customresourcedefinitions") => crate::crd::changed(self, key),
            _ if resource.custom.is_some() => crate::crd::instance_gone(self, resource),
            _ => {}
        }
    }
}

/// The API server. Cloning shares it.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

impl ApiServer {
    /// Starts a server: opens its store and creates the objects that every cluster has.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let mut served = kinds::catalog();
        served.extend(
            kinds::gated(&options.feature_gates, &options.runtime_config).map_err(StartError::Features)?,
        );
        if options.kubelet.as_ref().is_some_and(|kubelet| kubelet.usage().is_some()) {
            served.extend(crate::usage::resources());
        }
        let catalog = Catalog::new(&served);
        let facets = |shelf: &crate::store::ShelfId, object: &serde_json::Value| match catalog.by_shelf(shelf)
        {
            Some(resource) => resource.facets(object),
            None => Facets::default(),
        };
        let store = match &options.data_dir {
            Some(directory) => Store::open(directory, options.history, facets).map_err(StartError::Store)?,
            None => Store::in_memory(options.history),
        };
        if let Some(snapshot) = &options.snapshot {
            store.replace(snapshot, facets);
        }
        let audit = Audit::new(options.audit_entries, options.audit_file.as_deref()).map_err(|source| {
            let path = options.audit_file.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
            StartError::Audit { path, source }
        })?;
        let authn = Authenticator::new(&options).map_err(StartError::Key)?;
        let inner = Arc::new(Inner {
            addresses: Addresses::new(&options),
            expiry: Expiry::default(),
            discovery: crate::discovery::Cache::default(),
            aggregation: Aggregation::default(),
            registered: Registered::default(),
            requests: Requests::default(),
            authz: Authorizer::new(options.authorization),
            rng: Mutex::new(StdRng::seed_from_u64(options.seed)),
            drawn_uids: AtomicU32::new(0),
            store,
            catalog,
            authn,
            audit,
            options,
        });
        crate::crd::load(&inner);
        Addresses::repair(&inner);
        inner.aggregation.load(&inner);
        crate::bootstrap::run(&inner).map_err(StartError::Bootstrap)?;
        inner.addresses.load(&inner);
        inner.expiry.load(&inner);
        Ok(Self { inner })
    }

    /// The state that all requests share, for embedding code and tests.
    pub fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Returns to an earlier version, like a cluster after a restore of etcd from a snapshot and a restart of the API server: all
    /// watches end, and versions are used a second time.
    pub fn restore(&self, version: u64) -> Result<(), Compacted> {
        let server = &self.inner;
        server.store.restore(version)?;
        server.authz.forget();
        server.registered.forget();
        server.catalog.replace(|resource| resource.custom.is_some(), Vec::new());
        crate::crd::load(server);
        server.aggregation.load(server);
        server.addresses.load(server);
        server.expiry.load(server);
        Ok(())
    }

    pub async fn handle(&self, parts: request::Parts, body: Bytes) -> Response<Body> {
        // With a store in memory, nothing below yields: a client that loops must not starve others.
        tokio::task::consume_budget().await;
        let server = &self.inner;
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let watch = query.flag("watch") == Some(true);
        let mut info = path::parse(&parts.method, parts.uri.path(), watch);
        info.selected = selector::required(query.get("fieldSelector").unwrap_or_default());
        Aggregation::tend(server);
        let remote = server.aggregation.find(&info);
        // Discovery and similar requests read the header themselves, as do other servers.
        let is_own = info.is_resource && remote.is_none();
        let errors = Accept::of_errors(&parts.headers);
        let resource = server.catalog.get(&info.group, &info.version, &info.resource);
        let offered = match &resource {
            Some(resource) if resource.custom.is_none() => {
                Offered::Builtin { has_message: message::is_offered(resource) }
            }
            _ => Offered::Custom,
        };
        let accept = if is_own { Accept::read(&parts.headers, offered) } else { Ok(Accept::JSON) };
        let agent = parts.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");

        let user = match crate::authn::who(server, &parts) {
            Ok(user) => user,
            Err(error) => return respond::refusal(&error, errors),
        };
        let notes = Arc::new(Notes::default());
        let mut record = Record::new(server.now(), &info, &user, agent, parts.uri.to_string());
        let outcome = match (crate::authn::impersonate(server, &parts, user), &accept) {
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => Err(error.clone()),
            (Ok(user), Ok(accept)) => match server.authz.check(server, &user, &info) {
                Err(error) => {
                    record.is_forbidden = true;
                    Err(error)
                }
                Ok(()) => {
                    let request = Incoming {
                        server,
                        parts: &parts,
                        query: &query,
                        info: &info,
                        accept: *accept,
                        agent,
                        notes: &notes,
                        remote: remote.as_deref(),
                    };
                    request.answer(&user, body).await
                }
            },
        };
        let mut answer = outcome.unwrap_or_else(|error| respond::refusal(&error, errors).into());
        respond::warn(&mut answer.response, &notes.warnings());
        record.annotations = notes.annotations();
        let answer = match server.store.durable(answer.written).await {
            Ok(()) => answer,
            Err(error) => respond::refusal(&ApiError::internal(error), errors).into(),
        };
        record.code = answer.response.status().as_u16();
        let served = resource.is_some_and(|resource| {
            info.subresource.is_empty() || verbs::subresource_of(&resource, &info.subresource).is_some()
        });
        server.requests.count(&info, served, record.code);
        // What was written may be the first thing to check.
        Aggregation::tend(server);
        record.stage = if info.verb == "watch" { Stage::ResponseStarted } else { Stage::ResponseComplete };
        server.audit.record(record);
        match parts.method {
            // Over HTTP/2 a body would be a protocol error.
            http::Method::HEAD => answer.response.map(|_| respond::full(Bytes::new())),
            _ => answer.response,
        }
    }
}

struct Incoming<'a> {
    server: &'a Arc<Inner>,
    parts: &'a request::Parts,
    query: &'a Query,
    info: &'a RequestInfo,
    accept: Accept,
    agent: &'a str,
    notes: &'a Arc<Notes>,
    /// The server that the request is for, if it is another one.
    remote: Option<&'a Remote>,
}

impl Incoming<'_> {
    async fn answer(&self, user: &User, body: Bytes) -> Result<Answer, ApiError> {
        let info = self.info;
        if let Some(remote) = self.remote {
            return Ok(aggregation::answer(self.server, remote, self.parts, user, body).await);
        }
        if !info.is_resource {
            return crate::discovery::answer(self.server, self.parts, info, self.accept);
        }
        let Some(resource) = self.server.catalog.get(&info.group, &info.version, &info.resource) else {
            let is_known =
                |r: &Arc<Resource>| r.custom.is_none() && r.group == info.group && r.version == info.version;
            // For a group with custom resources only, an unknown resource is a 404 without a Status.
            return match self.server.catalog.all().iter().any(is_known) {
                true => Err(ApiError::no_such_resource()),
                false => Ok(respond::text(404, "404 page not found\n").into()),
            };
        };
        if !resource.namespaced && info.namespace.is_some() && resource.plural != "namespaces" {
            return Err(ApiError::no_such_resource());
        }
        let call = Call {
            server: self.server,
            resource,
            parts: Some(self.parts),
            info,
            query: self.query,
            user,
            now: self.server.now(),
            accept: self.accept,
            media: body::media_type(&self.parts.headers),
            user_agent: self.agent,
            notes: Arc::clone(self.notes),
            websocket: Handshake::read(self.parts),
            spdy: spdy::Handshake::read(self.parts),
            body,
        };
        verbs::dispatch(&call).await
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, incoming) = request.into_parts();
            Ok(match body::collect(incoming).await {
                Ok(bytes) => server.handle(parts, bytes).await,
                Err(error) => respond::refusal(&error, Accept::JSON),
            })
        })
    }
}
