//! Maps: borrowed from data, or made by an expression. They are iterated in the order of their keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::schema::Schema;
use crate::value::{Json, Text, Value};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of an `f64`.
    Double(u64),
    String(SmolStr),
}

impl Key {
    pub(crate) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(bits) => Value::Double(f64::from_bits(*bits)),
            Self::String(text) => Value::string(text.as_str()),
        }
    }
}

#[derive(Debug, Clone)]
pub enum Map<'a> {
    Made(Arc<BTreeMap<Key, Value<'a>>>),
    Data(&'a serde_json::Map<String, Json>, Option<&'a Schema>),
}

impl<'a> Map<'a> {
    pub fn made(entries: BTreeMap<Key, Value<'a>>) -> Self {
        Self::Made(Arc::new(entries))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Made(entries) => entries.len(),
            Self::Data(members, _) => members.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `map`, or the name of the object type in the schema.
    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Data(_, Some(schema)) => schema.object_name().unwrap_or("map"),
            _ => "map",
        }
    }

    /// The value of a key. Numbers of different types that are equal are the same key.
    pub fn find(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match self {
            Self::Made(entries) => {
                let exact = entries.get(&key.key()?);
                exact.or_else(|| same_number(key).iter().find_map(|key| entries.get(key))).cloned()
            }
            Self::Data(members, schema) => {
                let name = key.as_str()?;
                match schema {
                    Some(schema) => {
                        let (property, of) = schema.member(name)?;
                        Some(Value::typed(members.get(property.unwrap_or(name))?, of))
                    }
                    None => members.get(name).map(Value::of),
                }
            }
        }
    }

    pub fn iter(&self) -> Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_> {
        match self {
            Self::Made(entries) => Box::new(entries.iter().map(|(key, value)| (key.value(), value.clone()))),
            Self::Data(members, schema) => Box::new(members.iter().map(move |(name, data)| {
                let of = schema.and_then(|schema| schema.property(name));
                (Value::String(Text::Borrowed(name)), Value::typed(data, of))
            })),
        }
    }

    pub(crate) fn equals(&self, other: &Map<'a>) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| {
                let found = other.iter_find(&key);
                found.is_some_and(|found| value.equals(&found).unwrap_or(true))
            })
    }

    /// As `find`, but the key is the unescaped name of a property.
    fn iter_find(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match self {
            Self::Data(members, schema) => {
                let name = key.as_str()?;
                let of = schema.and_then(|schema| schema.property(name));
                Some(Value::typed(members.get(name)?, of))
            }
            Self::Made(_) => self.find(key),
        }
    }
}

/// The keys of all types that are equal to this number.
fn same_number(key: &Value<'_>) -> Vec<Key> {
    let whole = match key {
        Value::Int(value) => i128::from(*value),
        Value::Uint(value) => i128::from(*value),
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 2e19 => *value as i128,
        _ => return vec![],
    };
    let int = i64::try_from(whole).ok().map(Key::Int);
    let uint = u64::try_from(whole).ok().map(Key::Uint);
    int.into_iter().chain(uint).chain([Key::Double((whole as f64).to_bits())]).collect()
}
