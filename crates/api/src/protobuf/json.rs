//! Writes a message as JSON, as the API server would: fields in Go's order, empty ones omitted where Go omits them.
//!
//! JSON is what controllers copy, so nothing may be lost: a field that the schema does not have is an error, and the caller
//! then requests JSON from the server.

use smallvec::SmallVec;

use super::de::entry_of;
use super::schema::{Count, Field, Message, Shape};
use super::value::{self, IntOrString};
use super::wire::{Fields, Result, Wire, error};
use crate::canonical::write_string;

pub(super) fn of_message(message: &'static Message, bytes: &[u8], depth: u8) -> Result<String> {
    let mut out = String::with_capacity(bytes.len() * 2);
    write_message(&mut out, message, bytes, depth)?;
    Ok(out)
}

/// The same with the type, which is not in the message itself.
pub(super) fn of_object(
    message: &'static Message,
    bytes: &[u8],
    version_and_kind: (&str, &str),
) -> Result<String> {
    let mut out = String::with_capacity(bytes.len() * 2);
    let (version, kind) = version_and_kind;
    out.push_str("{\"kind\":");
    write_string(&mut out, kind);
    out.push_str(",\"apiVersion\":");
    write_string(&mut out, version);
    write_fields(&mut out, message, bytes, super::de::MAX_DEPTH)?;
    out.push('}');
    Ok(out)
}

/// The value of a list or map.
pub(super) fn of_field(field: &'static Field, all: &[Wire<'_>], depth: u8) -> Result<String> {
    let mut out = String::new();
    write_many(&mut out, field, all, depth)?;
    Ok(out)
}

pub(super) fn of_one(field: &'static Field, wire: Wire<'_>, depth: u8) -> Result<String> {
    let mut out = String::new();
    write_one(&mut out, field, wire, depth)?;
    Ok(out)
}

fn write_message(out: &mut String, message: &'static Message, bytes: &[u8], depth: u8) -> Result<()> {
    out.push('{');
    write_fields(out, message, bytes, depth)?;
    out.push('}');
    Ok(())
}

fn write_fields(out: &mut String, message: &'static Message, bytes: &[u8], depth: u8) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| error("messages are nested too deeply"))?;
    let mut found: SmallVec<[(u8, Wire<'_>); 16]> = SmallVec::new();
    let mut fields = Fields::of(bytes);
    while let Some((number, wire)) = fields.next()? {
        let position = message.position(number);
        found.push((position.ok_or_else(|| error("a field is not in the schema"))?, wire));
    }
    // Stable, so that elements of lists keep their order.
    found.sort_by_key(|(position, _)| *position);
    let mut rest = &found[..];
    for (field, position) in message.fields.iter().zip(0u8..) {
        let count = rest.iter().take_while(|(found, _)| *found == position).count();
        let (own, others) = rest.split_at(count);
        rest = others;
        write_field(out, field, own, depth)?;
    }
    Ok(())
}

fn write_field(out: &mut String, field: &'static Field, own: &[(u8, Wire<'_>)], depth: u8) -> Result<()> {
    let last = own.last().map(|(_, wire)| *wire);
    if field.is_inline() {
        let bytes = last.map_or(Ok(&[][..]), Wire::bytes)?;
        return write_fields(out, field.message()?, bytes, depth);
    }
    if own.len() > 1 && matches!(field.count, Count::One | Count::Optional) {
        // Such messages would have to be merged.
        return Err(error("a field occurs twice"));
    }
    match (field.count, last) {
        (Count::Optional, None) => {
            // A pointer without `omitempty`, such as the API group of what a claim is cloned from.
            if !field.omit_empty && !field.omit_zero {
                write_name(out, field);
                out.push_str("null");
            }
            Ok(())
        }
        (Count::Optional, Some(wire)) => {
            write_name(out, field);
            write_one(out, field, wire, depth)
        }
        (Count::One, last) => {
            let wire = last.unwrap_or(match field.shape {
                Shape::Int | Shape::Bool => Wire::Number(0),
                _ => Wire::Bytes(&[]),
            });
            if field.is_omitted(wire) {
                return Ok(());
            }
            write_name(out, field);
            match (field.shape, last) {
                (Shape::Bytes, None) => out.push_str("null"),
                _ => write_one(out, field, wire, depth)?,
            }
            Ok(())
        }
        (Count::List | Count::Map, None) => {
            if !field.omit_empty {
                write_name(out, field);
                out.push_str("null");
            }
            Ok(())
        }
        (Count::List | Count::Map, Some(_)) => {
            write_name(out, field);
            let all: SmallVec<[Wire<'_>; 16]> = own.iter().map(|(_, wire)| *wire).collect();
            write_many(out, field, &all, depth)
        }
    }
}

fn write_name(out: &mut String, field: &Field) {
    if !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(field.name);
    out.push_str("\":");
}

fn write_many(out: &mut String, field: &'static Field, all: &[Wire<'_>], depth: u8) -> Result<()> {
    if field.count == Count::List {
        out.push('[');
        for (at, wire) in all.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_one(out, field, *wire, depth)?;
        }
        out.push(']');
        return Ok(());
    }
    let mut entries: Vec<_> = all.iter().map(|wire| entry_of(field, *wire)).collect::<Result<_>>()?;
    entries.sort_by_key(|(key, _)| *key);
    // The last of several entries with one key is used.
    entries.reverse();
    entries.dedup_by_key(|(key, _)| *key);
    entries.reverse();
    out.push('{');
    for (at, (key, wire)) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write_one(out, field, wire, depth)?;
    }
    out.push('}');
    Ok(())
}

fn write_one(out: &mut String, field: &'static Field, wire: Wire<'_>, depth: u8) -> Result<()> {
    let time = |out: &mut String, text: Option<String>| match text {
        Some(text) => write_string(out, &text),
        None => out.push_str("null"),
    };
    match field.shape {
        Shape::Text => write_string(out, wire.text()?),
        Shape::Int => write_int(out, wire.number()?),
        Shape::Bool => out.push_str(if wire.number()? != 0 { "true" } else { "false" }),
        Shape::Bytes => write_string(out, &value::base64(wire.bytes()?)),
        Shape::Time => time(out, value::seconds_text(wire.bytes()?)?),
        Shape::MicroTime => time(out, value::micros_text(wire.bytes()?)?),
        Shape::Quantity => write_string(out, value::quantity(wire.bytes()?)?),
        Shape::IntOrString => match value::int_or_string(wire.bytes()?)? {
            IntOrString::Int(number) => write_int(out, number),
            IntOrString::Text(text) => write_string(out, text),
        },
        Shape::Raw => write_compact(out, value::raw_json(wire.bytes()?)?)?,
        Shape::Texts => {
            out.push('[');
            let mut texts = Fields::of(wire.bytes()?);
            let mut is_first = true;
            while let Some(text) = texts.next_if(1)? {
                if !std::mem::take(&mut is_first) {
                    out.push(',');
                }
                write_string(out, text.text()?);
            }
            out.push(']');
        }
        Shape::Message => write_message(out, field.message()?, wire.bytes()?, depth)?,
    }
    Ok(())
}

fn write_int(out: &mut String, number: i64) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

/// Go writes embedded JSON without white space, and with HTML characters escaped.
fn write_compact(out: &mut String, json: &str) -> Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(json)?;
    let (mut in_text, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if !in_text => {}
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
        in_text ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    Ok(())
}
