//! Presents a message to serde as the map that it is in JSON, so that a type that is decoded from JSON is decoded from
//! protobuf as well. A field that the type does not have costs no more than a look at its length.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::json;
use super::schema::{Count, Field, Message, Shape};
use super::value::{self, IntOrString};
use super::wire::{Fields, Result, Wire, error};
use crate::time::TIME;

/// The limit on nesting, so that malicious bytes cannot exhaust the stack.
pub(super) const MAX_DEPTH: u8 = 64;
/// How deep messages that are inlined in JSON are nested: three times in ephemeral containers.
const MAX_INLINE: usize = 4;
/// By this name, serde_json requests a value as JSON text.
const RAW_JSON: &str = "$serde_json::private::RawValue";

/// A message as a deserializer.
pub(super) struct MessageDeserializer<'de> {
    pub(super) message: &'static Message,
    pub(super) bytes: &'de [u8],
    pub(super) depth: u8,
}

impl<'de> Deserializer<'de> for MessageDeserializer<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| error("messages are nested too deeply"))?;
        let start = Level { message: self.message, fields: Fields::of(self.bytes) };
        visitor.visit_map(FieldsOfMessage { level: start, outer: [None; MAX_INLINE], next: None, depth })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        match name {
            RAW_JSON => raw(visitor, json::of_message(self.message, self.bytes, self.depth)?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

#[derive(Clone, Copy)]
struct Level<'de> {
    message: &'static Message,
    fields: Fields<'de>,
}

/// The fields of a message that JSON has, including those of messages that are inlined.
struct FieldsOfMessage<'de> {
    level: Level<'de>,
    /// The messages in which `level` is inlined, with what follows in each.
    outer: [Option<Level<'de>>; MAX_INLINE],
    next: Option<(&'static Field, Wire<'de>)>,
    depth: u8,
}

impl<'de> FieldsOfMessage<'de> {
    fn advance(&mut self) -> Result<Option<(&'static Field, Wire<'de>)>> {
        loop {
            let Some((number, wire)) = self.level.fields.next()? else {
                let Some(outer) = self.outer.iter_mut().rev().find_map(Option::take) else { return Ok(None) };
                self.level = outer;
                continue;
            };
            let message: &'static Message = self.level.message;
            let Some(field) = message.field(number) else { continue };
            if field.is_inline() {
                let free = self.outer.iter_mut().find(|outer| outer.is_none());
                *free.ok_or_else(|| error("messages are inlined too deeply"))? = Some(self.level);
                self.level = Level { message: field.message()?, fields: Fields::of(wire.bytes()?) };
            } else if !field.is_omitted(wire) {
                return Ok(Some((field, wire)));
            }
        }
    }
}

impl Field {
    /// Whether JSON does not have the field, although it is on the wire: values that are not pointers are always written.
    pub(super) fn is_omitted(&self, wire: Wire<'_>) -> bool {
        let is_value =
            !matches!(self.shape, Shape::Message | Shape::Quantity | Shape::IntOrString | Shape::Raw);
        let is_time = matches!(self.shape, Shape::Time | Shape::MicroTime);
        self.count == Count::One
            && wire.is_empty()
            && (self.omit_zero || (self.omit_empty && is_value && !is_time))
    }
}

impl<'de> MapAccess<'de> for FieldsOfMessage<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.next = self.advance()?;
        let Some((field, _)) = self.next else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let (field, first) = self.next.take().ok_or_else(|| error("a value is read before its key"))?;
        let fields = &mut self.level.fields;
        seed.deserialize(FieldDeserializer { field, first, fields, depth: self.depth })
    }
}

/// The value of a field. The elements of a list or map are consecutive fields with the same number.
struct FieldDeserializer<'a, 'de> {
    field: &'static Field,
    first: Wire<'de>,
    fields: &'a mut Fields<'de>,
    depth: u8,
}

impl<'a, 'de> FieldDeserializer<'a, 'de> {
    fn one(self) -> OneDeserializer<'de> {
        OneDeserializer { field: self.field, wire: self.first, depth: self.depth }
    }

    fn elements(self) -> Elements<'a, 'de> {
        let Self { field, first, fields, depth } = self;
        Elements { field, first: Some(first), fields, value: None, depth }
    }

    fn is_one(&self) -> bool {
        matches!(self.field.count, Count::One | Count::Optional)
    }
}

impl<'de> Deserializer<'de> for FieldDeserializer<'_, 'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.field.count {
            Count::One | Count::Optional => self.one().deserialize_any(visitor),
            Count::List => visitor.visit_seq(self.elements()),
            Count::Map => visitor.visit_map(self.elements()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_one() { self.one().deserialize_option(visitor) } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if self.is_one() {
            return self.one().deserialize_newtype_struct(name, visitor);
        }
        if name != RAW_JSON {
            return visitor.visit_newtype_struct(self);
        }
        let (field, depth) = (self.field, self.depth);
        let mut all = vec![self.first];
        while let Some(wire) = self.fields.next_if(field.number.into())? {
            all.push(wire);
        }
        raw(visitor, json::of_field(field, &all, depth)?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.one().deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        while !self.is_one() && self.fields.next_if(self.field.number.into())?.is_some() {}
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// One value: of a field, or an element of a list or map.
struct OneDeserializer<'de> {
    field: &'static Field,
    wire: Wire<'de>,
    depth: u8,
}

impl<'de> OneDeserializer<'de> {
    fn is_null(&self) -> bool {
        let can_be = matches!(self.field.shape, Shape::Time | Shape::MicroTime);
        can_be && self.wire.is_empty()
    }
}

impl<'de> Deserializer<'de> for OneDeserializer<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let time = |text: Option<String>, visitor: V| match text {
            Some(text) => visitor.visit_string(text),
            None => visitor.visit_unit(),
        };
        match self.field.shape {
            Shape::Text => visitor.visit_borrowed_str(self.wire.text()?),
            Shape::Int => visitor.visit_i64(self.wire.number()?),
            Shape::Bool => visitor.visit_bool(self.wire.number()? != 0),
            Shape::Bytes => visitor.visit_string(value::base64(self.wire.bytes()?)),
            Shape::Time => time(value::seconds_text(self.wire.bytes()?)?, visitor),
            Shape::MicroTime => time(value::micros_text(self.wire.bytes()?)?, visitor),
            Shape::Quantity => visitor.visit_borrowed_str(value::quantity(self.wire.bytes()?)?),
            Shape::IntOrString => match value::int_or_string(self.wire.bytes()?)? {
                IntOrString::Int(number) => visitor.visit_i64(number),
                IntOrString::Text(text) => visitor.visit_borrowed_str(text),
            },
            Shape::Raw => {
                let json = value::raw_json(self.wire.bytes()?)?;
                serde_json::Deserializer::from_str(json).deserialize_any(visitor)
            }
            Shape::Texts => visitor.visit_seq(Texts(Fields::of(self.wire.bytes()?))),
            Shape::Message => {
                let (message, bytes) = (self.field.message()?, self.wire.bytes()?);
                MessageDeserializer { message, bytes, depth: self.depth }.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        match (name, self.field.shape) {
            (RAW_JSON, _) => raw(visitor, json::of_one(self.field, self.wire, self.depth)?),
            (TIME, Shape::Time) => match value::seconds(self.wire.bytes()?)? {
                Some(time) => visitor.visit_i128(time.as_nanosecond()),
                None => visitor.visit_none(),
            },
            (TIME, Shape::MicroTime) => match value::micros(self.wire.bytes()?)? {
                Some(time) => visitor.visit_i128(time.as_nanosecond()),
                None => visitor.visit_none(),
            },
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.field.shape {
            Shape::Text => visitor.visit_enum(self.wire.text()?.into_deserializer()),
            _ => Err(error("a text is missing")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

/// The elements of a list or map.
struct Elements<'a, 'de> {
    field: &'static Field,
    first: Option<Wire<'de>>,
    fields: &'a mut Fields<'de>,
    /// Of the entry whose key was read.
    value: Option<Wire<'de>>,
    depth: u8,
}

impl<'de> Elements<'_, 'de> {
    fn next(&mut self) -> Result<Option<Wire<'de>>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.fields.next_if(self.field.number.into()),
        }
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = serde_json::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(wire) = self.next()? else { return Ok(None) };
        seed.deserialize(OneDeserializer { field: self.field, wire, depth: self.depth }).map(Some)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(entry) = self.next()? else { return Ok(None) };
        let (key, value) = entry_of(self.field, entry)?;
        self.value = Some(value);
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let wire = self.value.take().ok_or_else(|| error("a value is read before its key"))?;
        seed.deserialize(OneDeserializer { field: self.field, wire, depth: self.depth })
    }
}

/// Key and value of an entry of a map.
pub(super) fn entry_of<'de>(field: &Field, entry: Wire<'de>) -> Result<(&'de str, Wire<'de>)> {
    let (mut key, mut value) = ("", None);
    let mut fields = Fields::of(entry.bytes()?);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => key = wire.text()?,
            2 => value = Some(wire),
            _ => {}
        }
    }
    let zero = match field.shape {
        Shape::Int | Shape::Bool => Wire::Number(0),
        _ => Wire::Bytes(&[]),
    };
    Ok((key, value.unwrap_or(zero)))
}

/// A list of texts that is a message of its own.
struct Texts<'de>(Fields<'de>);

impl<'de> SeqAccess<'de> for Texts<'de> {
    type Error = serde_json::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some(wire) = self.0.next_if(1)? else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(wire.text()?)).map(Some)
    }
}

/// JSON text as serde_json expects it: a map with one entry.
fn raw<'de, V: Visitor<'de>>(visitor: V, json: String) -> Result<V::Value> {
    struct Entry(Option<String>);
    impl<'de> MapAccess<'de> for Entry {
        type Error = serde_json::Error;

        fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
            match self.0 {
                Some(_) => seed.deserialize(BorrowedStrDeserializer::new(RAW_JSON)).map(Some),
                None => Ok(None),
            }
        }

        fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
            seed.deserialize(self.0.take().unwrap_or_default().into_deserializer())
        }
    }
    visitor.visit_map(Entry(Some(json)))
}
