//! The values of expressions. Data of objects is borrowed; only values that an expression makes are owned.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;

use crate::error::Error;
use crate::map::{Key, Map};
use crate::message::Message;
use crate::opaque::Opaque;
use crate::schema::Schema;

pub(crate) type Json = serde_json::Value;

/// A value, which may borrow from data that lives for `'a`.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    /// A type, by its name.
    Type(SmolStr),
    Optional(Option<Arc<Value<'a>>>),
    /// A value without members, such as a quantity.
    Opaque(Opaque<'a>),
    /// An object that the expression made.
    Message(Arc<Message<'a>>),
    /// A variable whose members are computed when they are asked for.
    Members(SmolStr),
}

/// Text, borrowed or shared.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[derive(Debug, Clone)]
pub enum List<'a> {
    Made(Arc<Vec<Value<'a>>>),
    Data(&'a [Json], Option<&'a Schema>),
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Made(elements) => elements.len(),
            Self::Data(elements, _) => elements.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, at: usize) -> Option<Value<'a>> {
        match self {
            Self::Made(elements) => elements.get(at).cloned(),
            Self::Data(elements, schema) => {
                Some(Value::typed(elements.get(at)?, schema.and_then(Schema::items)))
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    pub(crate) fn contains(&self, wanted: &Value<'a>) -> bool {
        self.iter().any(|element| element.equals(wanted).unwrap_or(false))
    }

    pub(crate) fn schema(&self) -> Option<&'a Schema> {
        match self {
            Self::Made(_) => None,
            Self::Data(_, schema) => *schema,
        }
    }
}

impl<'a> Value<'a> {
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    pub fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::Made(Arc::new(elements)))
    }

    pub(crate) fn strings<T: Into<Arc<str>>>(elements: impl IntoIterator<Item = T>) -> Self {
        Self::list(elements.into_iter().map(Self::string).collect())
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Data without a schema: whole numbers are ints, others are doubles.
    pub fn of(data: &'a Json) -> Self {
        Self::typed(data, None)
    }

    /// Data with the types of its schema.
    pub fn typed(data: &'a Json, schema: Option<&'a Schema>) -> Self {
        if let Some(converted) = schema.and_then(|schema| schema.convert(data)) {
            return converted;
        }
        match data {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(int), _) => Self::Int(int),
                (None, float) => Self::Double(float.unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(elements) => Self::List(List::Data(elements, schema)),
            Json::Object(members) => Self::Map(Map::Data(members, schema)),
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(map) => map.type_name(),
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(opaque) => opaque.type_name(),
            Self::Message(message) => &message.name,
            Self::Members(name) => name,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The size for costs: the number of characters, bytes, elements or members; 1 for other values.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.size(),
            Self::Opaque(opaque) => return opaque.size(),
            _ => 1,
        };
        size as u64
    }

    /// Whether it is the zero value of its type, such as 0 or an empty list.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Duration(value) => *value == 0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Optional(value) => value.is_none(),
            Self::Message(message) => message.fields.is_empty(),
            _ => false,
        }
    }

    /// Equality of CEL: numbers of different types may be equal; other values of different types are not.
    pub fn equals(&self, other: &Value<'a>) -> Result<bool, Error> {
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::String(one), Self::String(other)) => **one == **other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(one)), Self::Optional(Some(other))) => one.equals(other)?,
            (Self::List(one), Self::List(other)) => one.equals(other),
            (Self::Map(one), Self::Map(other)) => one.equals(other),
            (Self::Message(one), Self::Message(other)) => one.equals(other),
            (Self::Opaque(one), other) => return one.equals(other),
            _ => self.number_order(other) == Some(Ordering::Equal),
        })
    }

    fn number_order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(one), Self::Int(other)) => Some(one.cmp(other)),
            (Self::Uint(one), Self::Uint(other)) => Some(one.cmp(other)),
            (Self::Double(one), Self::Double(other)) => one.partial_cmp(other),
            (Self::Int(one), Self::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Uint(one), Self::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Int(one), Self::Double(other)) => int_and_double(i128::from(*one), *other, I64_LIMITS),
            (Self::Uint(one), Self::Double(other)) => int_and_double(i128::from(*one), *other, U64_LIMITS),
            (Self::Double(one), Self::Int(other)) => {
                int_and_double(i128::from(*other), *one, I64_LIMITS).map(Ordering::reverse)
            }
            (Self::Double(one), Self::Uint(other)) => {
                int_and_double(i128::from(*other), *one, U64_LIMITS).map(Ordering::reverse)
            }
            _ => None,
        }
    }

    /// Compares two values of the same type, or two numbers; fails for types without an order.
    pub(crate) fn compare(&self, other: &Self) -> Result<Ordering, Error> {
        let is_number = |value: &Self| matches!(value, Self::Int(_) | Self::Uint(_) | Self::Double(_));
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Ok(one.cmp(other)),
            (Self::String(one), Self::String(other)) => Ok((**one).cmp(&**other)),
            (Self::Bytes(one), Self::Bytes(other)) => Ok(one.cmp(other)),
            (Self::Timestamp(one), Self::Timestamp(other)) => Ok(one.cmp(other)),
            (Self::Duration(one), Self::Duration(other)) => Ok(one.cmp(other)),
            _ if is_number(self) && is_number(other) => {
                self.number_order(other).ok_or_else(|| Error::new("NaN values cannot be ordered"))
            }
            _ => Err(Error::no_such_overload()),
        }
    }

    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Uint(value) => Some(Key::Uint(*value)),
            Self::Double(value) => Some(Key::Double(value.to_bits())),
            Self::String(text) => Some(Key::String(SmolStr::new(&**text))),
            _ => None,
        }
    }
}

impl<'a> List<'a> {
    fn equals(&self, other: &List<'a>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match self.schema().and_then(Schema::list_keys) {
            Some(keys) => self.iter().all(|one| {
                other
                    .iter()
                    .any(|other| same_entry(&one, &other, keys) && one.equals(&other).unwrap_or(false))
            }),
            None => self.iter().zip(other.iter()).all(|(one, other)| one.equals(&other).unwrap_or(true)),
        }
    }
}

/// Whether two elements of a list of type `map` or `set` have the same keys.
pub(crate) fn same_entry<'a>(one: &Value<'a>, other: &Value<'a>, keys: &[SmolStr]) -> bool {
    let of = |value: &Value<'a>, key: &SmolStr| match value {
        Value::Map(map) => map.find(&Value::String(Text::Shared(key.as_str().into()))),
        _ => None,
    };
    if keys.is_empty() {
        return one.equals(other).unwrap_or(false);
    }
    keys.iter().all(|key| match (of(one, key), of(other, key)) {
        (Some(one), Some(other)) => one.equals(&other).unwrap_or(false),
        (None, None) => true,
        _ => false,
    })
}

const I64_LIMITS: (f64, f64) = (i64::MIN as f64, i64::MAX as f64);
const U64_LIMITS: (f64, f64) = (0.0, u64::MAX as f64);

fn int_and_double(int: i128, double: f64, (least, most): (f64, f64)) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double < least {
        return Some(Ordering::Greater);
    }
    if double > most {
        return Some(Ordering::Less);
    }
    (int as f64).partial_cmp(&double)
}
