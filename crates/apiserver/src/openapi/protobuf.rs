//! Encodes a Swagger 2.0 document as protocol buffers: `openapi.v2.Document` of github.com/google/gnostic-models, which kubectl
//! and other Go clients request from `/openapi/v2`. Only the messages that our documents contain are described; other keys of a
//! custom resource's schema (`oneOf`, `nullable`, …) have no field in that format and are left out, as upstream does.

use serde_json::Value;

/// Both names of the media type; responses have the first.
pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
pub(super) const DEPRECATED_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// How a JSON value is written into a field.
enum Kind {
    Text,
    Flag,
    Integer,
    Number,
    /// Any value, as YAML text.
    Any,
    Message(&'static Message),
    /// A list; a value that is not a list counts as a list of one.
    Repeated(&'static Kind),
    /// A message that has only this field.
    Wrapped(u32, &'static Kind),
    /// A message that has the entries of an object in this field, each as a message of name and value.
    Entries(u32, &'static Kind),
    /// A schema or a boolean.
    SchemaOrFlag,
}

struct Message {
    fields: &'static [(&'static str, u32, Kind)],
    /// The field for keys that begin with `x-`.
    extensions: u32,
}

use Kind::{Any, Entries, Flag, Integer, Number, Repeated, SchemaOrFlag, Text, Wrapped};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, Kind::Message(&INFO)),
        ("paths", 8, Entries(2, &Kind::Message(&PATH_ITEM))),
        ("definitions", 9, Entries(1, &Kind::Message(&SCHEMA))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)], extensions: 7 };

static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Kind::Message(&OPERATION)),
        ("put", 3, Kind::Message(&OPERATION)),
        ("post", 4, Kind::Message(&OPERATION)),
        ("delete", 5, Kind::Message(&OPERATION)),
        ("patch", 8, Kind::Message(&OPERATION)),
        ("parameters", 9, Repeated(&PARAMETER)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Repeated(&Text)),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Repeated(&Text)),
        ("consumes", 7, Repeated(&Text)),
        ("parameters", 8, Repeated(&PARAMETER)),
        ("responses", 9, Entries(1, &Wrapped(1, &Kind::Message(&RESPONSE)))),
    ],
    extensions: 13,
};

/// A query parameter, the only kind of parameter in our documents.
static PARAMETER: Kind = Wrapped(1, &Wrapped(2, &Wrapped(3, &Kind::Message(&QUERY_PARAMETER))));

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
    ],
    extensions: 23,
};

static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Wrapped(1, &Kind::Message(&SCHEMA)))],
    extensions: 5,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Repeated(&Text)),
        ("enum", 20, Repeated(&Any)),
        ("additionalProperties", 21, SchemaOrFlag),
        ("type", 22, Wrapped(1, &Repeated(&Text))),
        ("items", 23, Wrapped(1, &Kind::Message(&SCHEMA))),
        ("allOf", 24, Repeated(&Kind::Message(&SCHEMA))),
        ("properties", 25, Entries(1, &Kind::Message(&SCHEMA))),
        ("example", 30, Any),
    ],
    extensions: 31,
};

static IN_SCHEMA_ITEM: Kind = Wrapped(1, &Kind::Message(&SCHEMA));

/// The document in protocol buffers.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    message(&DOCUMENT, document)
}

fn message(message: &Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, kind) in message.fields {
        if let Some(value) = value.get(name) {
            field(&mut out, *number, kind, value);
        }
    }
    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        bytes(&mut out, message.extensions, &entry(name, &Any, value));
    }
    out
}

/// Values of a wrong type are left out, as users write schemas.
fn field(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value) {
    match kind {
        Text => bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Flag => scalar(out, number, u64::from(value == &Value::Bool(true))),
        // Negative numbers are ten bytes long, as in every int64.
        Integer => scalar(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Number => {
            varint(out, u64::from(number) << 3 | 1);
            out.extend(value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Any => {
            let mut any = Vec::new();
            bytes(&mut any, 2, value.to_string().as_bytes()); // JSON is YAML, too.
            bytes(out, number, &any);
        }
        Kind::Message(inner) => bytes(out, number, &message(inner, value)),
        Repeated(kind) => match value {
            Value::Array(items) => items.iter().for_each(|item| field(out, number, kind, item)),
            one => field(out, number, kind, one),
        },
        Wrapped(inner, kind) => {
            let mut wrapped = Vec::new();
            field(&mut wrapped, *inner, kind, value);
            bytes(out, number, &wrapped);
        }
        Entries(inner, kind) => {
            let mut entries = Vec::new();
            for (name, value) in value.as_object().into_iter().flatten() {
                bytes(&mut entries, *inner, &entry(name, kind, value));
            }
            bytes(out, number, &entries);
        }
        SchemaOrFlag if value.is_boolean() => field(out, number, &Wrapped(2, &Flag), value),
        SchemaOrFlag => field(out, number, &IN_SCHEMA_ITEM, value),
    }
}

/// A message with a name in field 1 and a value in field 2.
fn entry(name: &str, kind: &Kind, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, name.as_bytes());
    field(&mut out, 2, kind, value);
    out
}

fn scalar(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number) << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_fields() {
        #[rustfmt::skip]
        let table: [(Value, &[u8]); 8] = [
            (json!({"type": "string"}),                 b"\xb2\x01\x08\x0a\x06string"),
            (json!({"$ref": "#/x"}),                    b"\x0a\x03#/x"),
            (json!({"uniqueItems": true}),              b"\x80\x01\x01"),
            (json!({"minLength": 300}),                 b"\x60\xac\x02"),
            (json!({"minimum": 0.5}),                   b"\x49\0\0\0\0\0\0\xe0\x3f"),
            (json!({"additionalProperties": true}),     b"\xaa\x01\x02\x10\x01"),
            (json!({"enum": ["a"]}),                    b"\xa2\x01\x05\x12\x03\"a\""),
            (json!({"nullable": true, "x-y": 1}),       b"\xfa\x01\x0a\x0a\x03x-y\x12\x03\x12\x011"),
        ];
        for (schema, want) in table {
            assert_eq!(message(&SCHEMA, &schema), want, "{schema}");
        }
    }
}
