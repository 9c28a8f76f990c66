//! Objects in the representation that the client accepts: whole, metadata only, or as a table.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::http::negotiate::View;
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

/// A line of a watch.
pub(crate) fn line(call: &Call<'_>, happened: Happened, entry: &Entry) -> Bytes {
    match call.accept.view {
        View::Whole if !call.resource.converts() => entry.frame(happened),
        _ => frame(happened, &object(call, entry)),
    }
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
