//! Values as text: as Go prints them in messages, and unambiguously for tests.

use crate::go;
use crate::time;
use crate::value::Value;

/// As Go prints a value in a message.
pub(crate) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL_VALUE".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go::general(*value),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => {
            let shown: Vec<String> = bytes.iter().map(u8::to_string).collect();
            format!("[{}]", shown.join(" "))
        }
        Value::List(list) => {
            let shown: Vec<String> = list.iter().map(|element| plain(&element)).collect();
            format!("[{}]", shown.join(", "))
        }
        Value::Map(map) => {
            let shown: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", plain(&key), plain(&value))).collect();
            format!("{{{}}}", shown.join(", "))
        }
        Value::Timestamp(time) => time::show_timestamp(*time),
        Value::Duration(nanos) => time::show_duration(*nanos),
        Value::Type(name) => name.to_string(),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", plain(value)),
        Value::Opaque(opaque) => opaque.to_string(),
        Value::Message(message) => message.name.to_string(),
        Value::Members(name) => name.to_string(),
    }
}

impl std::fmt::Display for Value<'_> {
    /// Unambiguous: different values have different texts.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}u"),
            Self::Double(value) => write!(f, "{}d", go::general(*value)),
            Self::String(text) => f.write_str(&serde_json::Value::from(&**text).to_string()),
            Self::Bytes(bytes) => {
                f.write_str("b")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Timestamp(time) => write!(f, "google.protobuf.Timestamp({})", time::show_timestamp(*time)),
            Self::Duration(nanos) => write!(f, "google.protobuf.Duration({})", time::show_duration(*nanos)),
            Self::List(list) => {
                let shown: Vec<String> = list.iter().map(|element| element.to_string()).collect();
                write!(f, "[{}]", shown.join(", "))
            }
            Self::Map(map) => {
                let mut shown: Vec<String> =
                    map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                shown.sort();
                write!(f, "{{{}}}", shown.join(", "))
            }
            Self::Type(name) => write!(f, "type {name}"),
            Self::Optional(None) => f.write_str("none"),
            Self::Optional(Some(value)) => write!(f, "some({value})"),
            Self::Opaque(opaque) => write!(f, "{opaque}"),
            Self::Message(message) => {
                let shown: Vec<String> =
                    message.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                write!(f, "{}{{{}}}", message.name, shown.join(", "))
            }
            Self::Members(name) => write!(f, "the members of {name}"),
        }
    }
}
