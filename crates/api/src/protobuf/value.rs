//! Values that are messages on the wire and something else in JSON: times, quantities, and numbers that may be texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::wire::{Fields, Result, error};
use crate::Timestamp;
use crate::time::{format_micros, format_seconds};

/// `None` for the zero time, which is null in JSON.
pub(super) fn seconds(message: &[u8]) -> Result<Option<Timestamp>> {
    // Fractions are dropped, as in JSON.
    parts(message).map(|parts| parts.map(|(seconds, _)| timestamp(seconds, 0)))
}

/// The same with microseconds.
pub(super) fn micros(message: &[u8]) -> Result<Option<Timestamp>> {
    parts(message).map(|parts| parts.map(|(seconds, nanos)| timestamp(seconds, nanos - nanos % 1000)))
}

pub(super) fn seconds_text(message: &[u8]) -> Result<Option<String>> {
    Ok(seconds(message)?.map(format_seconds))
}

pub(super) fn micros_text(message: &[u8]) -> Result<Option<String>> {
    Ok(micros(message)?.map(format_micros))
}

fn parts(message: &[u8]) -> Result<Option<(i64, i32)>> {
    if message.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::of(message);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => seconds = wire.number()?,
            2 => {
                nanos = i32::try_from(wire.number()?).map_err(|_| error("a time has too many nanoseconds"))?
            }
            _ => {}
        }
    }
    Ok(Some((seconds, nanos)))
}

/// Times that cannot be represented are replaced by the nearest one, as when they are read from JSON.
fn timestamp(seconds: i64, nanos: i32) -> Timestamp {
    let nearest = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::new(seconds, nanos).unwrap_or(nearest)
}

pub(super) fn quantity(message: &[u8]) -> Result<&str> {
    let text = Fields::of(message).find(1)?.map_or(Ok(""), |wire| wire.text())?;
    Ok(if text.is_empty() { "0" } else { text })
}

pub(super) enum IntOrString<'a> {
    Int(i64),
    Text(&'a str),
}

pub(super) fn int_or_string(message: &[u8]) -> Result<IntOrString<'_>> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    let mut fields = Fields::of(message);
    while let Some((at, wire)) = fields.next()? {
        match at {
            1 => is_text = wire.number()? == 1,
            2 => number = wire.number()?,
            3 => text = wire.text()?,
            _ => {}
        }
    }
    Ok(if is_text { IntOrString::Text(text) } else { IntOrString::Int(number) })
}

/// JSON that is embedded in a message; `null` if there is none.
pub(super) fn raw_json(message: &[u8]) -> Result<&str> {
    let text = Fields::of(message).find(1)?.map_or(Ok(""), |wire| wire.text())?;
    Ok(if text.is_empty() { "null" } else { text })
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
