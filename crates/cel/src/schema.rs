//! Structural schemas: how values are read from data, and the types of these values in expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use smol_str::SmolStr;

use crate::env::{Fields, escaped};
use crate::time;
use crate::types::Type;
use crate::value::{Json, Value};

/// One node of a structural schema (`openAPIV3Schema` of a CustomResourceDefinition).
#[derive(Debug, Clone)]
pub struct Schema {
    kind: Kind,
    /// The fields that identify an entry of a list. Empty for sets; `None` for lists in which the order matters.
    list_keys: Option<Vec<SmolStr>>,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A value of unknown type. Expressions can refer to it (as `dyn`) only if `is_typed`.
    Any {
        is_typed: bool,
    },
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Date,
    DateTime,
    Duration,
    List(Box<Schema>),
    Map(Box<Schema>),
    Object {
        name: SmolStr,
        properties: BTreeMap<SmolStr, Schema>,
        /// Properties by their escaped names, where these differ.
        escaped: BTreeMap<SmolStr, SmolStr>,
    },
}

impl Schema {
    /// Reads a schema. `name` is the name of the type; those of nested types have the path appended.
    pub fn read(schema: &Json, name: &str, is_root: bool) -> Self {
        let flag = |key: &str| schema.get(key).and_then(Json::as_bool).unwrap_or(false);
        let word = |key: &str| schema.get(key).and_then(Json::as_str).unwrap_or_default();
        if flag("x-kubernetes-int-or-string") {
            return Self::of(Kind::Any { is_typed: true });
        }
        let kind = match (word("type"), word("format")) {
            ("boolean", _) => Kind::Bool,
            ("integer", _) => Kind::Int,
            ("number", _) => Kind::Double,
            ("string", "byte") => Kind::Bytes,
            ("string", "date") => Kind::Date,
            ("string", "date-time") => Kind::DateTime,
            ("string", "duration") => Kind::Duration,
            ("string", _) => Kind::String,
            ("array", _) => match schema.get("items") {
                Some(items) => {
                    let is_resource = items.get("x-kubernetes-embedded-resource") == Some(&Json::Bool(true));
                    Kind::List(Box::new(Self::read(items, &format!("{name}.@items"), is_resource)))
                }
                None => Kind::Any { is_typed: false },
            },
            ("object", _) => {
                let is_resource = is_root || flag("x-kubernetes-embedded-resource");
                return Self::of(object(schema, name, is_resource));
            }
            _ => Kind::Any { is_typed: false },
        };
        let list_keys = match word("x-kubernetes-list-type") {
            "set" => Some(vec![]),
            "map" => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
                Some(keys.into_iter().flatten().filter_map(Json::as_str).map(SmolStr::from).collect())
            }
            _ => None,
        };
        Self { kind, list_keys }
    }

    fn of(kind: Kind) -> Self {
        Self { kind, list_keys: None }
    }

    /// The type in expressions; `None` if they cannot refer to it. Object types are added to `objects`.
    pub fn declare(&self, objects: &mut BTreeMap<SmolStr, Fields>) -> Option<Type> {
        Some(match &self.kind {
            Kind::Any { is_typed: false } => return None,
            Kind::Any { is_typed: true } => Type::Dyn,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::Duration => Type::Duration,
            Kind::List(items) => Type::list(items.declare(objects)?),
            Kind::Map(values) => Type::map(Type::String, values.declare(objects)?),
            Kind::Object { name, properties, .. } => {
                let mut fields = Fields::new();
                for (property, schema) in properties {
                    if let (Some(field), Some(of)) = (escaped(property), schema.declare(objects)) {
                        fields.insert(field, of);
                    }
                }
                objects.insert(name.clone(), fields);
                Type::Object(name.clone())
            }
        })
    }

    /// Converts data for which JSON has no type of its own, such as timestamps; `None` for other data.
    pub(crate) fn convert<'a>(&self, data: &'a Json) -> Option<Value<'a>> {
        match (&self.kind, data) {
            (Kind::Double, Json::Number(number)) => number.as_f64().map(Value::Double),
            (Kind::Bytes, Json::String(text)) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
                Some(Value::Bytes(Arc::from(bytes)))
            }
            (Kind::DateTime, Json::String(text)) => time::parse_timestamp(text).map(Value::Timestamp),
            (Kind::Date, Json::String(text)) => {
                time::parse_timestamp(&format!("{text}T00:00:00Z")).map(Value::Timestamp)
            }
            (Kind::Duration, Json::String(text)) => time::parse_duration(text).map(Value::Duration),
            _ => None,
        }
    }

    pub(crate) fn items(&self) -> Option<&Self> {
        match &self.kind {
            Kind::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn list_keys(&self) -> Option<&[SmolStr]> {
        self.list_keys.as_deref()
    }

    pub(crate) fn object_name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Object { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The member that `name` refers to in an expression: the unescaped name of its property, if the schema declares it, and its
    /// schema. `None` if there is no such member.
    pub(crate) fn member(&self, name: &str) -> Option<(Option<&str>, Option<&Self>)> {
        match &self.kind {
            Kind::Object { properties, escaped, .. } => {
                let property = escaped.get(name).map_or(name, SmolStr::as_str);
                let found = properties.get_key_value(property).or_else(|| properties.get_key_value(name));
                found.map(|(property, of)| (Some(property.as_str()), Some(of)))
            }
            Kind::Map(values) => Some((None, Some(values))),
            _ => Some((None, None)),
        }
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Object { properties, .. } => properties.get(name),
            Kind::Map(values) => Some(values),
            _ => None,
        }
    }
}

fn object(schema: &Json, name: &str, is_resource: bool) -> Kind {
    let read = |at: &str, schema: &Json| {
        let is_resource = schema.get("x-kubernetes-embedded-resource") == Some(&Json::Bool(true));
        Schema::read(schema, &format!("{name}.{at}"), is_resource)
    };
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        return Kind::Map(Box::new(read("@elem", values)));
    }
    let members = schema.get("properties").and_then(Json::as_object);
    let mut properties: BTreeMap<SmolStr, Schema> =
        members.into_iter().flatten().map(|(key, schema)| (key.into(), read(key, schema))).collect();
    if is_resource {
        for key in ["apiVersion", "kind"] {
            properties.insert(key.into(), Schema::of(Kind::String));
        }
        let known = ["name", "generateName"];
        let meta = known.into_iter().map(|key| (SmolStr::new_static(key), Schema::of(Kind::String)));
        let kind = Kind::Object {
            name: format!("{name}.metadata").into(),
            properties: meta.collect(),
            escaped: BTreeMap::new(),
        };
        properties.insert("metadata".into(), Schema::of(kind));
    }
    let escaped = properties.keys().filter_map(|key| Some((escaped(key)?, key.clone())));
    let escaped = escaped.filter(|(name, key)| name != key).collect();
    Kind::Object { name: name.into(), properties, escaped }
}
