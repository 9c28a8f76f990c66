//! Admission: what the server adds to objects, and what it refuses, beyond their kind's own rules. The plugins and
//! their order are upstream's defaults.

mod namespaces;

use serde_json::Value;

use crate::error::ApiError;
use crate::life::Ops;
use crate::registry::Subresource;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A deletion.
    Delete,
}

/// Lets the plugins change an object before its strategy sees it.
pub(crate) fn mutate(
    ops: &mut Ops<'_>,
    operation: Operation,
    sub: Option<Subresource>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let _ = old;
    if operation == Operation::Create && sub.is_none() {
        namespaces::check_create(ops, object)?;
    }
    Ok(())
}

/// Lets the plugins refuse what is about to be stored or deleted.
pub(crate) fn validate(
    ops: &mut Ops<'_>,
    operation: Operation,
    sub: Option<Subresource>,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let _ = (sub, new);
    if let (Operation::Delete, Some(old)) = (operation, old) {
        namespaces::check_delete(ops, old)?;
    }
    Ok(())
}
