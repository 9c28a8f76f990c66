//! OpenAPI documents, made from the type table: `/openapi/v3` lists one document per group and version, and
//! `/openapi/v2` is everything in one, as JSON or as protocol buffers.

mod protobuf;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use http::Response;
use rustc_hash::FxHasher;
use serde_json::{Map, Value, json};

use crate::http::negotiate::Accept;
use crate::http::respond::{self, Body};
use crate::kinds::openapi::{Format, Served, document};
use crate::kinds::schema;
use crate::registry::Verbs;
use crate::resource::Resource;
use crate::server::Inner;

/// The response to `/openapi/…`; `accepted` is the client's `Accept` header.
pub(crate) fn answer(server: &Inner, path: &str, accepted: &str, accept: Accept) -> Option<Response<Body>> {
    let rest = path.strip_prefix("/openapi/")?;
    let value = match rest.split_once('/') {
        None if rest == "v2" => {
            let document = describe(Format::V2, &server.catalog.all());
            if wants_protobuf(accepted) {
                let bytes = protobuf::encode(&document).into();
                return Some(respond::with_type(200, bytes, protobuf::MEDIA_TYPE));
            }
            document
        }
        None if rest == "v3" => index(server),
        Some(("v3", place)) => {
            let resources: Vec<Arc<Resource>> =
                server.catalog.all().into_iter().filter(|resource| place_of(resource) == place).collect();
            if resources.is_empty() {
                return None;
            }
            describe(Format::V3, &resources)
        }
        _ => return None,
    };
    Some(respond::value(200, &value, accept))
}

/// Whether protocol buffers come before JSON in an `Accept` header.
fn wants_protobuf(accepted: &str) -> bool {
    let types = accepted.split(',').map(|clause| clause.split(';').next().unwrap_or("").trim());
    let servable = types.filter_map(|media| match media {
        protobuf::MEDIA_TYPE | protobuf::DEPRECATED_MEDIA_TYPE => Some(true),
        "application/json" | "application/*" | "*/*" => Some(false),
        _ => None,
    });
    servable.into_iter().next().unwrap_or(false)
}

/// `api/v1` or `apis/apps/v1`.
fn place_of(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", resource.api_version())
}

fn describe(format: Format, resources: &[Arc<Resource>]) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let kinds: Vec<Served<'_>> = resources
        .iter()
        .map(|resource| Served {
            group: &resource.group,
            version: &resource.version,
            plural: &resource.plural,
            kind: &resource.kind,
            namespaced: resource.namespaced,
            stored: resource.verbs != Verbs::CreateOnly,
            custom: resource
                .custom
                .as_ref()
                .map(|custom| if custom.schema.is_object() { &custom.schema } else { &any }),
        })
        .collect();
    document(schema::builtin(), format, &kinds)
}

/// The URL of each document. It contains a hash of the contents, so that clients can cache the document.
fn index(server: &Inner) -> Value {
    let mut paths = Map::new();
    for resource in server.catalog.all() {
        let place = place_of(&resource);
        let mut hasher = FxHasher::default();
        for other in server.catalog.all().iter().filter(|other| place_of(other) == place) {
            (&other.plural, &other.kind).hash(&mut hasher);
            other.custom.as_ref().map(|custom| custom.schema.to_string()).hash(&mut hasher);
        }
        let address = format!("/openapi/v3/{place}?hash={:016X}", hasher.finish());
        paths.insert(place, json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}
