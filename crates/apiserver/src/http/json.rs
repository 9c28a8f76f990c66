//! Parses JSON and records duplicate keys, which other parsers ignore: the last one counts, but its author may have meant the
//! first.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// The limit on reported keys, as in upstream.
const MOST: usize = 100;

/// A document, and the paths of its duplicate keys.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut again = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { place: Place::Root, again: &mut again }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, again))
}

/// The path of a value, formatted only when there is something to report.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => Ok(()),
            Place::Field(Place::Root, name) => f.write_str(name),
            Place::Field(place, name) => write!(f, "{place}.{name}"),
            Place::Item(place, at) => write!(f, "{place}[{at}]"),
        }
    }
}

struct Seed<'a> {
    place: Place<'a>,
    again: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Self { place, again } = self;
        let mut out = Vec::new();
        while let Some(item) =
            items.next_element_seed(Seed { place: Place::Item(&place, out.len()), again: &mut *again })?
        {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let Self { place, again } = self;
        let mut out = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value =
                fields.next_value_seed(Seed { place: Place::Field(&place, &name), again: &mut *again })?;
            match out.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(mut taken) => {
                    let path = Place::Field(&place, taken.key()).to_string();
                    if again.len() < MOST && !again.contains(&path) {
                        again.push(path);
                    }
                    taken.insert(value);
                }
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_as_ever_and_repeated_keys_are_named() {
        #[rustfmt::skip]
        let table = [
            (r#"{"a": 1, "b": [true, null, -2, 1.5, "x"]}"#,    json!({"a": 1, "b": [true, null, -2, 1.5, "x"]}), ""),
            (r#"{"a": 1, "a": 2, "a": 3}"#,                     json!({"a": 3}),                                  "a"),
            (r#"{"s": {"c": [{}, {"n": 1, "n": 2}]}}"#,         json!({"s": {"c": [{}, {"n": 2}]}}),              "s.c[1].n"),
            (r#"{"s": {"a": 1, "a": 2}, "s": {"a": 3}}"#,       json!({"s": {"a": 3}}),                           "s.a s"),
        ];
        for (text, value, again) in table {
            let (read, found) = parse(text.as_bytes()).unwrap();
            assert_eq!((read, found.join(" ").as_str()), (value, again), "{text}");
        }
        assert!(parse(b"{} x").is_err(), "something follows");
        assert!(parse("[".repeat(10_000).as_bytes()).is_err(), "too deep");
    }
}
