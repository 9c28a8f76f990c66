//! Objects that expressions make: the patches of mutating admission policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use smol_str::SmolStr;

use crate::error::Error;
use crate::time;
use crate::types::Type;
use crate::value::{Json, Value};

/// An object that an expression made.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    pub name: SmolStr,
    pub fields: BTreeMap<SmolStr, Value<'a>>,
}

/// The type of apply configurations. `Object.spec` is the type of its field, and so on.
const OBJECT: &str = "Object";
const JSON_PATCH: &str = "JSONPatch";

/// Whether objects of a type can be made.
pub(crate) fn is_made(name: &str) -> bool {
    name == JSON_PATCH
        || name == OBJECT
        || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// The type of a field of such a type; the fields of apply configurations may be anything.
pub(crate) fn field(object: &str, field: &str) -> Option<&'static Type> {
    match (object, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(&Type::String),
        (JSON_PATCH, "value") => Some(&Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(&Type::Dyn),
    }
}

impl<'a> Message<'a> {
    pub(crate) fn made(name: &SmolStr, fields: BTreeMap<SmolStr, Value<'a>>) -> Result<Value<'a>, Error> {
        if name == JSON_PATCH {
            let texts = ["op", "path", "from"].into_iter();
            let mut wrong =
                texts.filter(|text| fields.get(*text).is_some_and(|value| value.as_str().is_none()));
            if let Some(field) = wrong.next() {
                return Err(Error::new(format!("unexpected type for JSONPatchType '{field}' field")));
            }
        }
        Ok(Value::Message(Arc::new(Self { name: name.clone(), fields })))
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        let is_same = |(one, other): ((&SmolStr, &Value<'a>), (&SmolStr, &Value<'a>))| {
            one.0 == other.0 && one.1.equals(other.1).unwrap_or(false)
        };
        self.name == other.name
            && self.fields.len() == other.fields.len()
            && self.fields.iter().zip(&other.fields).all(is_same)
    }

    /// The types that are not those of the fields in which they are.
    pub fn misplaced(&self) -> Vec<String> {
        let mut found = Vec::new();
        misplaced(&Value::Message(Arc::new(self.clone())), &self.name, &mut found);
        found
    }
}

fn misplaced(value: &Value<'_>, expected: &str, found: &mut Vec<String>) {
    match value {
        Value::Message(message) => {
            if message.name != expected {
                found.push(format!(
                    "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
                    message.name
                ));
            }
            for (name, field) in &message.fields {
                misplaced(field, &format!("{expected}.{name}"), found);
            }
        }
        Value::List(list) => list.iter().for_each(|element| misplaced(&element, expected, found)),
        Value::Map(map) => map.iter().for_each(|(_, element)| misplaced(&element, expected, found)),
        _ => {}
    }
}

impl Value<'_> {
    /// The value as JSON, or why it has no such form.
    pub fn to_json(&self) -> Result<Json, String> {
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::from(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => Json::from(*value),
            Self::String(text) => Json::from(&**text),
            Self::Bytes(bytes) => Json::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Self::Timestamp(at) => Json::from(time::show_timestamp(*at)),
            Self::Duration(nanos) => Json::from(time::show_duration(*nanos)),
            Self::Optional(Some(value)) => value.to_json()?,
            Self::List(list) => list.iter().map(|element| element.to_json()).collect::<Result<_, _>>()?,
            Self::Map(map) => {
                let entry = |(key, value): (Value<'_>, Value<'_>)| match key.as_str() {
                    Some(key) => Ok((key.to_owned(), value.to_json()?)),
                    None => Err(format!("map key {key} is of type {}, not string", key.type_name())),
                };
                Json::Object(map.iter().map(entry).collect::<Result<_, String>>()?)
            }
            Self::Message(message) => {
                let fields = message.fields.iter();
                let entries = fields.map(|(name, value)| Ok((name.to_string(), value.to_json()?)));
                Json::Object(entries.collect::<Result<_, String>>()?)
            }
            Self::Type(_) | Self::Opaque(_) | Self::Members(_) => {
                return Err(format!("a value of type {} has no JSON form", self.type_name()));
            }
        })
    }
}
