//! OpenAPI documents, made from the type table: `/openapi/v3` lists one document per group and version, and
//! `/openapi/v2` is everything in one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;
use serde_json::{Map, Value, json};

use crate::kinds::openapi::{Format, Served, document};
use crate::kinds::schema;
use crate::registry::Verbs;
use crate::resource::Resource;
use crate::server::Inner;

/// Answers `/openapi/…`.
pub(crate) fn answer(server: &Inner, path: &str) -> Option<Value> {
    let rest = path.strip_prefix("/openapi/")?;
    match rest.split_once('/') {
        None if rest == "v2" => Some(describe(Format::V2, &server.catalog.all())),
        None if rest == "v3" => Some(index(server)),
        Some(("v3", place)) => {
            let resources: Vec<Arc<Resource>> =
                server.catalog.all().into_iter().filter(|resource| place_of(resource) == place).collect();
            (!resources.is_empty()).then(|| describe(Format::V3, &resources))
        }
        _ => None,
    }
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

/// The address of each document, which changes with what the document is made from, so that it can be cached.
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
