//! Objects in the representation that the client accepts: whole, metadata only, or as a table.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::error::ApiError;
use crate::http::message;
use crate::http::negotiate::{Accept, Format, View};
use crate::registry::Column;
use crate::resource::Resource;
use crate::store::{Entry, Happened, frame};

pub(crate) fn object(call: &Call<'_>, entry: &Entry) -> Bytes {
    match call.accept.view {
        View::Whole => whole(&call.resource, entry),
        View::Metadata => entry.partial(),
        View::Table => {
            let rows = vec![row(call, entry)];
            table(call, rows, &json!({"resourceVersion": entry.version.to_string()})).to_string().into()
        }
    }
}

/// The object in its served version.
pub(crate) fn whole(resource: &Resource, entry: &Entry) -> Bytes {
    if resource.converts() {
        Bytes::from(resource.strategy.serve(entry.value()).to_string())
    } else {
        entry.json()
    }
}

/// The kind of the objects in a response.
pub(crate) fn kind<'a>(resource: &'a Resource, view: View, version: &'a str) -> (&'a str, &'a str) {
    match view {
        View::Metadata => message::METADATA,
        _ => (version, resource.kind.as_str()),
    }
}

/// An object in protocol buffers, without its envelope.
pub(crate) fn message(resource: &Resource, view: View, entry: &Entry) -> Result<Bytes, ApiError> {
    let version = resource.api_version();
    let kind = kind(resource, view, &version);
    match view {
        View::Metadata => {
            message::of_kind(kind, &serde_json::from_slice(&entry.partial()).unwrap_or(Value::Null))
        }
        _ if resource.converts() => message::of_kind(kind, &resource.strategy.serve(entry.value())),
        _ => entry.message(|object| message::of_kind(kind, object)),
    }
}

/// An event of a watch.
pub(crate) fn line(call: &Call<'_>, happened: Happened, entry: &Entry) -> Bytes {
    if call.accept.format == Format::Protobuf {
        let version = call.resource.api_version();
        return match message(&call.resource, call.accept.view, entry) {
            Ok(raw) => {
                let kind = kind(&call.resource, call.accept.view, &version);
                message::frame(happened.name(), &message::envelope(kind, &raw))
            }
            Err(error) => error_line(call.accept, &error),
        };
    }
    match call.accept.view {
        View::Whole if !call.resource.converts() => entry.frame(happened),
        _ => frame(happened, &object(call, entry)),
    }
}

/// The event that ends a watch with an error.
pub(crate) fn error_line(accept: Accept, error: &ApiError) -> Bytes {
    let status = error.status();
    if accept.format == Format::Protobuf
        && let Some(Ok(object)) = message::object(&status)
    {
        return message::frame("ERROR", &object);
    }
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

pub(crate) fn table(call: &Call<'_>, rows: Vec<Value>, metadata: &Value) -> Value {
    let columns: Vec<Value> = match &call.resource.custom {
        Some(custom) => custom.columns(),
        None => call.resource.strategy.columns().iter().map(column).collect(),
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

fn column(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

/// One row of a table, with the part of the object that `includeObject` selects.
pub(crate) fn row(call: &Call<'_>, entry: &Entry) -> Value {
    let stored = entry.value();
    let cells = match &call.resource.custom {
        Some(custom) => custom.cells(&stored, call.now),
        None => call.resource.strategy.cells(&stored, call.now),
    };
    let object = match call.query.get("includeObject") {
        Some("None") => return json!({"cells": cells}),
        Some("Object") => serde_json::from_slice(&whole(&call.resource, entry)).unwrap_or(Value::Null),
        _ => serde_json::from_slice(&entry.partial()).unwrap_or(Value::Null),
    };
    json!({"cells": cells, "object": object})
}
