//! Server-side apply and the bookkeeping of `managedFields`.

use serde_json::Value;

use crate::error::ApiError;
use crate::life::{Ops, Updated};
use crate::registry::Subresource;
use crate::store::Key;

/// One server-side apply.
pub(crate) struct Apply<'a> {
    /// Who applies.
    pub manager: &'a str,
    /// Take fields over from others.
    pub force: bool,
    /// The part that is applied.
    pub sub: Option<Subresource>,
}

impl Apply<'_> {
    /// Applies a configuration.
    pub(crate) fn run(&self, _ops: &mut Ops<'_>, _key: &Key, _config: &Value) -> Result<Updated, ApiError> {
        Err(ApiError::bad_request("server-side apply is not supported"))
    }
}

/// Notes which fields a write other than an apply has changed.
pub(crate) fn track_update(
    _ops: &Ops<'_>,
    _sub: Option<Subresource>,
    _new: &mut Value,
    _old: Option<&Value>,
) {
}

/// Whether two states differ in nothing but the times in `managedFields`.
pub(crate) fn same_but_for_times(new: &Value, old: &Value) -> bool {
    new == old
}
