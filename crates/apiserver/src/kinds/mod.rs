//! The built-in kinds: what is served, and how each kind defaults, validates and prints itself.

use crate::registry::Builtin;
use serde_json::Value;

mod quantity;
pub mod schema;
mod shape;

pub use shape::shape;

/// Every built-in resource, in the order of discovery.
pub fn catalog() -> Vec<Builtin> {
    Vec::new()
}

/// Objects that every cluster has from the start: RBAC roles and bindings, priority classes.
pub fn bootstrap() -> Vec<Value> {
    Vec::new()
}
