//! OpenAPI documents, made from the type table.

use serde_json::Value;

use crate::server::Inner;

/// Answers `/openapi/…`.
pub(crate) fn answer(_server: &Inner, _path: &str) -> Option<Value> {
    None
}
