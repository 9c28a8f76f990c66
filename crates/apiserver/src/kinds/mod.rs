//! The built-in kinds: the resources that are served, with their defaults, validation and printing.
//!
//! Reading order: `schema` (the shape of every type), `shape` (converts JSON to it), `defaults` (default values,
//! by type), `catalog` (every resource and its strategy), then the families: `pod`, `apps`, `batch`, `service`,
//! `storage`, `autoscaling`, `events`, `various`, `extension`. Then `validate` and `print`.

mod apps;
pub(crate) mod autoscaling;
mod batch;
mod bootstrap;
mod catalog;
mod defaults;
mod events;
mod extension;
mod gated;
mod json;
mod network;
pub mod openapi;
pub(crate) mod pod;
mod print;
mod quantity;
pub mod schema;
pub mod service;
mod shape;
mod simple;
mod storage;
pub(crate) mod validate;
mod various;

use std::sync::Arc;

use serde_json::Value;

use crate::registry::Strategy;

pub use bootstrap::bootstrap;
pub use catalog::catalog;
pub use defaults::apply as default;
pub use gated::{gated, known_gates, known_versions};
pub(crate) use json::Json;
pub(crate) use quantity::Quantity;
pub use shape::shape;

/// The strategy of kinds without special rules.
pub(crate) fn plain() -> Arc<dyn Strategy> {
    Arc::new(simple::Simple::new(&print::NAME_AND_AGE))
}

/// Shapes an object by its apiVersion and kind, for objects that the server itself has created.
pub(crate) fn reshape(object: &mut Value) {
    let schema = schema::builtin();
    if let Some(kind) = schema.kind(object.text("apiVersion"), object.text("kind")) {
        // A mismatch would be a bug, which tests find; the object is then served unchanged.
        let _ = shape(schema, kind, object);
    }
}

/// Restores the metadata that users write, for subresources that may not change it.
pub(crate) fn restore_user_metadata(new: &mut Value, old: &Value) {
    for field in [
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        let path = format!("metadata.{field}");
        match old.at(&path) {
            Value::Null => drop(new.pull(&path)),
            value => new.put(&path, value.clone()),
        }
    }
}
