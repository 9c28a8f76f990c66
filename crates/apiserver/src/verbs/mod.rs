//! The verbs of the API, each a translation between HTTP and the lifecycle of objects.

mod collection;
mod list;
mod logs;
mod patch;
mod proxy;
mod read;
mod render;
mod subresource;
mod watch;
mod write;

pub(crate) use subresource::{scale_of, scaled};

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde_json::Value;

use crate::crd::conversion;
use crate::error::ApiError;
use crate::http::negotiate::Accept;
use crate::http::path::RequestInfo;
use crate::http::query::Query;
use crate::http::respond::{self, Body};
use crate::http::spdy;
use crate::http::websocket::Handshake;
use crate::http::{body, negotiate};
use crate::invalid::Cause;
use crate::life::{FieldValidation, Notes, Ops};
use crate::registry::{Subresource, User, Verbs};
use crate::resource::Resource;
use crate::selector::{FieldSelector, LabelSelector, Offered};
use crate::server::Inner;
use crate::store::{Entry, Key};

/// One request for a resource.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Inner>,
    pub(crate) resource: Arc<Resource>,
    /// The request as it was received; `None` for what a watch renders later.
    pub(crate) parts: Option<&'a http::request::Parts>,
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) user: &'a User,
    pub(crate) now: Timestamp,
    pub(crate) accept: Accept,
    pub(crate) media: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) notes: Arc<Notes>,
    pub(crate) websocket: Option<Handshake>,
    pub(crate) spdy: Option<spdy::Handshake>,
    pub(crate) body: Bytes,
}

/// A response, and the write that must be durable before it is sent.
pub(crate) struct Answer {
    pub(crate) response: Response<Body>,
    pub(crate) written: u64,
}

impl From<Response<Body>> for Answer {
    fn from(response: Response<Body>) -> Self {
        Self { response, written: 0 }
    }
}

/// Dispatches a request for a resource.
pub(crate) async fn dispatch(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut answer = answer(call).await?;
    if let Some(text) = call.resource.strategy.deprecated() {
        respond::warn(&mut answer.response, &[text.to_owned()]);
    }
    Ok(answer)
}

async fn answer(call: &Call<'_>) -> Result<Answer, ApiError> {
    if call.info.subresource.is_empty() {
        if !call.allows_verb() {
            return Err(ApiError::method_not_allowed());
        }
        if let Some(answer) = crate::reviews::answer(call).await? {
            return Ok(answer);
        }
        if let Some(answer) = crate::usage::answer(call)? {
            return Ok(answer);
        }
        return match call.info.verb {
            "get" => read::get(call).await,
            "list" => list::list(call).await,
            "watch" => watch::watch(call).await,
            "create" => write::create(call).await,
            "update" => write::update(call, None).await,
            "patch" => patch::patch(call, None).await,
            "delete" => write::delete(call).await,
            "deletecollection" => collection::delete(call).await,
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    subresource::dispatch(call).await
}

impl Call<'_> {
    fn allows_verb(&self) -> bool {
        let named = self.info.name.is_some();
        match self.info.verb {
            "create" => !named && self.resource.verbs != Verbs::Read,
            "update" | "patch" if !named => false,
            verb => self.resource.verb_names().contains(&verb),
        }
    }

    /// The key of the object that is addressed.
    pub(crate) fn key(&self) -> Key {
        let name = self.info.name.clone().unwrap_or_default();
        Key { namespace: self.namespace().into(), name }
    }

    /// The namespace that is addressed; empty for cluster-scoped resources and for all namespaces.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource.namespaced { self.info.namespace.as_deref().unwrap_or_default() } else { "" }
    }

    /// The options for writes of this request.
    pub(crate) fn ops(&self) -> Result<Ops<'_>, ApiError> {
        let dry_run = match self.query.all("dryRun").filter(|v| !v.is_empty()).collect::<Vec<_>>()[..] {
            [] => false,
            [.., "All"] => true,
            [.., other] => {
                let cause = Cause::not_supported("dryRun", other, &["All"]);
                let kind = match self.info.verb {
                    "create" => "CreateOptions",
                    "patch" => "PatchOptions",
                    "update" => "UpdateOptions",
                    _ => "DeleteOptions",
                };
                let named = crate::error::Named { group: "meta.k8s.io", what: kind, name: "" };
                return Err(ApiError::invalid(named, &[cause]));
            }
        };
        let field_validation = match self.query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let allowed = ["Ignore", "Strict", "Warn"];
                let cause = Cause::not_supported("fieldValidation", other, &allowed);
                let named = crate::error::Named { group: "meta.k8s.io", what: "CreateOptions", name: "" };
                return Err(ApiError::invalid(named, &[cause]));
            }
        };
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        Ok(Ops {
            server: self.server,
            resource: &self.resource,
            user: self.user,
            now: self.now,
            dry_run,
            manager: self.query.get("fieldManager").unwrap_or(if agent.is_empty() {
                "unknown"
            } else {
                agent
            }),
            field_validation,
            repeated: Vec::new(),
            notes: Arc::clone(&self.notes),
            review: Some(self.review(dry_run)),
            written: 0,
            applying: false,
        })
    }

    /// The options of a write as policies and webhooks see them. Its kind depends on the operation, which is not known yet.
    fn review(&self, dry_run: bool) -> Value {
        let mut options = serde_json::Map::new();
        for name in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.query.get(name) {
                options.insert(name.to_owned(), Value::from(value));
            }
        }
        if dry_run {
            options.insert("dryRun".to_owned(), serde_json::json!(["All"]));
        }
        Value::Object(options)
    }

    pub(crate) fn json_body(&self, kind: &str) -> Result<Value, ApiError> {
        body::object(self.media, &self.body, kind).map(|(object, _)| object)
    }

    /// The body as an object of the resource, in storage form, with defaults.
    pub(crate) fn object(&self, ops: &mut Ops<'_>) -> Result<Value, ApiError> {
        let (object, repeated) = body::object(self.media, &self.body, &self.resource.kind)?;
        ops.repeated = repeated;
        ops.decode(object)
    }

    /// The selectors of the query.
    pub(crate) fn selectors(&self) -> Result<(LabelSelector, FieldSelector), ApiError> {
        let labels = LabelSelector::parse(self.query.get("labelSelector").unwrap_or(""));
        let offered = match &self.resource.custom {
            Some(custom) => Offered::Custom(&custom.selectable_fields),
            None => Offered::Builtin(self.resource.strategy.field_labels()),
        };
        let fields = FieldSelector::parse(self.query.get("fieldSelector").unwrap_or(""), offered);
        let mut fields = fields.map_err(ApiError::bad_request)?;
        if self.info.verb == "watch"
            && let Some(name) = &self.info.name
        {
            fields = fields.and_name(name);
        }
        Ok((labels.map_err(ApiError::bad_request)?, fields))
    }

    /// Stored states in the version of the request.
    pub(crate) async fn shown(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, ApiError> {
        conversion::shown(self.server, &self.resource, entries).await
    }

    /// A response with one object.
    pub(crate) async fn entry(&self, code: u16, entry: Arc<Entry>) -> Result<Response<Body>, ApiError> {
        let shown = self.shown(vec![entry]).await?;
        let body = shown.first().map(|entry| render::object(self, entry)).unwrap_or_default();
        Ok(respond::json(code, body, self.accept))
    }

    /// A response with any value, always in full.
    pub(crate) fn value(&self, code: u16, value: &Value) -> Response<Body> {
        respond::value(code, value, Accept { view: negotiate::View::Whole, ..self.accept })
    }

    /// Ends a write.
    pub(crate) fn done(&self, response: Response<Body>, ops: &Ops<'_>) -> Answer {
        Answer { response, written: ops.written }
    }
}

/// The subresource of a path segment, if the resource has it.
pub(crate) fn subresource_of(resource: &Resource, segment: &str) -> Option<Subresource> {
    resource.subresources.iter().copied().find(|sub| sub.segment() == segment)
}
