//! Writes objects as the API server does in protobuf: fields by number, those that are not pointers always.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::schema::{Count, Field, Message, Shape};
use super::wire::{Result, error};
use crate::time::parse_rfc3339;

const MAGIC: &[u8] = b"k8s\0";

/// The message of an object, without its type. What the schema does not have is left out.
pub fn encode(message: &'static Message, object: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    write_message(&mut out, message, object)?;
    Ok(out)
}

/// A message in the envelope in which it is sent.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    write_bytes(&mut type_meta, 1, api_version.as_bytes());
    write_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 24);
    out.extend_from_slice(MAGIC);
    write_bytes(&mut out, 1, &type_meta);
    write_bytes(&mut out, 2, raw);
    // How the message is encoded and what its type is: never said, but always there.
    write_bytes(&mut out, 3, &[]);
    write_bytes(&mut out, 4, &[]);
    out
}

/// A list of messages, without its type. `metadata` is that of the list.
pub fn encode_list<'a>(metadata: &Value, items: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let message = Message::of_kind("v1", "Status").and_then(|status| status.field(1));
    let message = message.ok_or_else(|| error("lists are not in the schema"))?.message()?;
    let mut out = Vec::new();
    write_bytes(&mut out, 1, &encode(message, metadata)?);
    for item in items {
        write_bytes(&mut out, 2, item);
    }
    Ok(out)
}

/// An event of a watch with its length before it. `object` is in its envelope.
pub fn frame(type_: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    write_bytes(&mut raw, 1, object);
    let mut event = Vec::with_capacity(raw.len() + 24);
    write_bytes(&mut event, 1, type_.as_bytes());
    write_bytes(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), &event[..]].concat()
}

fn write_message(out: &mut Vec<u8>, message: &'static Message, object: &Value) -> Result<()> {
    for field in message.by_number() {
        if field.is_inline() {
            let mut inner = Vec::new();
            write_message(&mut inner, field.message()?, object)?;
            write_bytes(out, field.number, &inner);
            continue;
        }
        let value = object.get(field.name).unwrap_or(&Value::Null);
        match (field.count, value) {
            // Bytes may be nil without being a pointer.
            (Count::One, Value::Null) if field.shape == Shape::Bytes => {}
            (Count::Optional, Value::Null) => {}
            (Count::One | Count::Optional, value) => write_one(out, field, field.number, value)?,
            (Count::List, value) => {
                for item in value.as_array().into_iter().flatten() {
                    write_one(out, field, field.number, item)?;
                }
            }
            (Count::Map, value) => {
                // Sorted, as Go writes maps; serde_json keeps them so.
                for (key, item) in value.as_object().into_iter().flatten() {
                    let mut entry = Vec::new();
                    write_bytes(&mut entry, 1, key.as_bytes());
                    write_one(&mut entry, field, 2, item)?;
                    write_bytes(out, field.number, &entry);
                }
            }
        }
    }
    Ok(())
}

fn write_one(out: &mut Vec<u8>, field: &'static Field, number: u16, value: &Value) -> Result<()> {
    let text = || value.as_str().unwrap_or_default();
    match field.shape {
        Shape::Text => write_bytes(out, number, text().as_bytes()),
        Shape::Int => write_number(out, number, int(value)),
        Shape::Bool => write_number(out, number, u64::from(value.as_bool() == Some(true))),
        Shape::Bytes => {
            let bytes = STANDARD.decode(text()).map_err(|_| error("bytes are not in base64"))?;
            write_bytes(out, number, &bytes);
        }
        Shape::Time | Shape::MicroTime => write_bytes(out, number, &time(value, field.shape)?),
        Shape::Quantity => {
            let mut quantity = Vec::new();
            match value {
                Value::Number(number) => write_bytes(&mut quantity, 1, number.to_string().as_bytes()),
                Value::String(text) => write_bytes(&mut quantity, 1, text.as_bytes()),
                _ => write_bytes(&mut quantity, 1, b"0"),
            }
            write_bytes(out, number, &quantity);
        }
        Shape::IntOrString => {
            let mut either = Vec::new();
            write_number(&mut either, 1, u64::from(value.is_string()));
            write_number(&mut either, 2, int(value));
            write_bytes(&mut either, 3, text().as_bytes());
            write_bytes(out, number, &either);
        }
        Shape::Raw => {
            let mut raw = Vec::new();
            if !value.is_null() {
                write_bytes(&mut raw, 1, value.to_string().as_bytes());
            }
            write_bytes(out, number, &raw);
        }
        Shape::Texts => {
            let mut texts = Vec::new();
            for text in value.as_array().into_iter().flatten() {
                write_bytes(&mut texts, 1, text.as_str().unwrap_or_default().as_bytes());
            }
            write_bytes(out, number, &texts);
        }
        Shape::Message => {
            let mut inner = Vec::new();
            write_message(&mut inner, field.message()?, value)?;
            write_bytes(out, number, &inner);
        }
    }
    Ok(())
}

/// A number as its 64 bits; a negative one as those of its two's complement.
fn int(value: &Value) -> u64 {
    value.as_i64().map_or(0, |number| number as u64)
}

/// Seconds and nanoseconds; nothing for the zero time.
fn time(value: &Value, shape: Shape) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let Some(text) = value.as_str() else { return Ok(out) };
    let at = parse_rfc3339(text).ok_or_else(|| error("a time cannot be read"))?;
    let nanos = at.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = at.as_nanosecond().div_euclid(1_000_000_000);
    let seconds = i64::try_from(seconds).map_err(|_| error("a time is out of range"))?;
    let nanos = if shape == Shape::MicroTime { nanos - nanos % 1000 } else { 0 };
    write_number(&mut out, 1, seconds as u64);
    write_number(&mut out, 2, u64::try_from(nanos).unwrap_or_default());
    Ok(out)
}

fn write_number(out: &mut Vec<u8>, number: u16, value: u64) {
    write_varint(out, u64::from(number) << 3);
    write_varint(out, value);
}

fn write_bytes(out: &mut Vec<u8>, number: u16, bytes: &[u8]) {
    write_varint(out, u64::from(number) << 3 | 2);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
