//! JSON that is kept exactly as served, so that a controller can copy it without losing fields.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::canonical;
use crate::hash::fnv128a;

/// Shared JSON text. Equality is that of the canonical forms, regardless of the order of keys.
#[derive(Clone)]
pub struct RawJson(Arc<Inner>);

struct Inner {
    json: Box<RawValue>,
    /// Of the canonical form; computed when it is first needed.
    digest: OnceLock<u128>,
}

impl RawJson {
    pub fn from_value(value: &Value) -> Self {
        serde_json::value::to_raw_value(value).map(Self::of).unwrap_or_default()
    }

    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn of(json: Box<RawValue>) -> Self {
        Self(Arc::new(Inner { json, digest: OnceLock::new() }))
    }

    pub fn as_str(&self) -> &str {
        self.0.json.get()
    }

    pub fn to_value(&self) -> Value {
        // The text is valid JSON. Only if it is too deep or too large for a `Value`, it reads as null.
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }

    /// Reads it as `T`.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// A 128-bit hash of the canonical form.
    pub fn digest(&self) -> u128 {
        *self.0.digest.get_or_init(|| match self.to::<Value>() {
            Ok(value) => fnv128a(canonical::to_string(&value).as_bytes()),
            // Too deep, or a number is too large: hash the text itself.
            Err(_) => fnv128a(self.as_str().as_bytes()),
        })
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self::of(RawValue::NULL.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str() || self.digest() == other.digest()
    }
}

impl Eq for RawJson {}

impl Hash for RawJson {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest().hash(state);
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(Self::of)
    }
}

/// A parsed value together with its JSON. It serialises to that JSON, so that a PUT keeps unknown fields.
#[derive(Clone)]
pub struct WithRaw<T> {
    parsed: T,
    raw: RawJson,
}

impl<T: DeserializeOwned> WithRaw<T> {
    /// Parses `raw` and keeps it.
    pub fn new(raw: RawJson) -> Result<Self, serde_json::Error> {
        Ok(Self { parsed: raw.to()?, raw })
    }

    /// The same with some fields changed, unknown ones kept.
    pub fn edited(&self, change: impl FnOnce(&mut Value)) -> Result<Self, serde_json::Error> {
        let mut value = self.raw.to_value();
        change(&mut value);
        Self::new(RawJson::from_value(&value))
    }
}

impl<T> WithRaw<T> {
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }
}

/// The default JSON is the empty object, so that it can be sent.
impl<T: Default> Default for WithRaw<T> {
    fn default() -> Self {
        Self { parsed: T::default(), raw: RawJson::from_value(&Value::Object(Default::default())) }
    }
}

impl<T> Deref for WithRaw<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.parsed
    }
}

impl<T> PartialEq for WithRaw<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<T> Eq for WithRaw<T> {}

impl<T: fmt::Debug> fmt::Debug for WithRaw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parsed.fmt(f)
    }
}

impl<T> Serialize for WithRaw<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithRaw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(RawJson::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_passes_through_untouched() {
        let text = r#"{"b": 1.50,"a":[ 1,2 ],"unknown":{"z":null}}"#;
        let raw: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
        let from_value: RawJson = serde_json::from_value(json!({"a": 1})).unwrap();
        assert_eq!(from_value.as_str(), r#"{"a":1}"#);
    }

    #[test]
    fn equality_is_that_of_the_canonical_form() {
        let raw = |text| RawJson::parse(text).unwrap();
        assert_eq!(raw(r#"{"a":1,"b":2}"#), raw(r#"{ "b":2, "a":1 }"#));
        assert_ne!(raw(r#"{"a":1}"#), raw(r#"{"a":2}"#));
        assert_ne!(raw("[1e999,1]"), raw("[1e999,2]"));
        assert!(RawJson::parse("{").is_err());
    }

    #[test]
    fn parsed_part_and_unknown_rest_travel_together() {
        #[derive(Debug, Default, Deserialize)]
        struct Spec {
            replicas: i32,
        }
        let spec: WithRaw<Spec> = serde_json::from_str(r#"{"replicas":3,"new":true}"#).unwrap();
        assert_eq!(spec.replicas, 3);
        assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"replicas":3,"new":true}"#);
        assert!(serde_json::from_str::<WithRaw<Spec>>(r#"{"replicas":"x"}"#).is_err());
    }
}
