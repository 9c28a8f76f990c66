//! Conversions between types.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Function, overload, taken};
use crate::error::Error;
use crate::eval::Outcome;
use crate::go;
use crate::opaque::Opaque;
use crate::time;
use crate::value::Value;

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "bool" => |args| convert(args, to_bool, "bool"),
        "bytes" => |args| convert(args, to_bytes, "bytes"),
        "double" => |args| convert(args, to_double, "double"),
        "duration" => |args| convert(args, to_duration, "google.protobuf.Duration"),
        "dyn" => |args| Ok(taken(args, 0)),
        "int" => |args| convert(args, to_int, "int"),
        "string" => |args| convert(args, to_string, "string"),
        "timestamp" => |args| convert(args, to_timestamp, "google.protobuf.Timestamp"),
        "type" => |args| {
            let value = taken(args, 0);
            Ok(Value::Type(value.type_name().into()))
        },
        "uint" => |args| convert(args, to_uint, "uint"),
        _ => return None,
    })
}

/// The converted value; `None` if there is no such conversion.
type Conversion = for<'a> fn(&Value<'a>) -> Result<Option<Value<'a>>, Error>;

fn convert<'a>(args: &mut [Value<'a>], conversion: Conversion, to: &str) -> Outcome<'a> {
    let [value] = args else { return overload() };
    if value.type_name() == to {
        return Ok(taken(args, 0));
    }
    match conversion(value)? {
        Some(converted) => Ok(converted),
        None => {
            let from = value.type_name();
            Err(Error::new(format!("type conversion error from '{from}' to '{to}'")))
        }
    }
}

fn to_bool<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    let Value::String(text) = value else { return Ok(None) };
    Ok(match &**text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Value::Bool(false)),
        _ => None,
    })
}

fn to_bytes<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    let Value::String(text) = value else { return Ok(None) };
    Ok(Some(Value::Bytes(Arc::from(text.as_bytes()))))
}

fn to_double<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    Ok(match value {
        Value::Int(value) => Some(Value::Double(*value as f64)),
        Value::Uint(value) => Some(Value::Double(*value as f64)),
        Value::String(text) => parse_double(text).map(Value::Double),
        _ => None,
    })
}

/// As Go parses numbers: no `nan(…)`, no surrounding space, no numbers that are too large.
fn parse_double(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    if matches!(unsigned, "inf" | "infinity") {
        return Some(if lower.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if lower == "nan" {
        return Some(f64::NAN);
    }
    lower.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn to_int<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    let overflow = || Error::new("integer overflow");
    Ok(match value {
        Value::Uint(value) => Some(Value::Int(i64::try_from(*value).map_err(|_| overflow())?)),
        Value::Double(value) => {
            if !value.is_finite() || *value <= i64::MIN as f64 || *value >= i64::MAX as f64 {
                return Err(overflow());
            }
            Some(Value::Int(*value as i64))
        }
        Value::String(text) => text.parse().ok().map(Value::Int),
        Value::Timestamp(time) => {
            let nanos = time.as_nanosecond().div_euclid(1_000_000_000);
            Some(Value::Int(i64::try_from(nanos).map_err(|_| overflow())?))
        }
        Value::Duration(nanos) => Some(Value::Int(*nanos)),
        _ => None,
    })
}

fn to_uint<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    let overflow = || Error::new("unsigned integer overflow");
    Ok(match value {
        Value::Int(value) => Some(Value::Uint(u64::try_from(*value).map_err(|_| overflow())?)),
        Value::Double(value) => {
            if !value.is_finite() || *value < 0.0 || *value >= u64::MAX as f64 {
                return Err(overflow());
            }
            Some(Value::Uint(*value as u64))
        }
        Value::String(text) if !text.starts_with('+') => text.parse().ok().map(Value::Uint),
        _ => None,
    })
}

fn to_string<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    Ok(Some(Value::string(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go::general(*value),
        Value::Timestamp(time) => time::show_timestamp(*time),
        Value::Duration(nanos) => time::show_duration(*nanos),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Opaque(Opaque::Ip(ip)) => ip.to_string(),
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.to_string(),
        Value::Type(name) => name.to_string(),
        _ => return Ok(None),
    })))
}

/// The text of a value that `string()` takes.
pub(super) fn string_of(value: &Value<'_>) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        other => match to_string(other) {
            Ok(Some(Value::String(text))) => Some(text.to_string()),
            _ => None,
        },
    }
}

fn to_timestamp<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    let overflow = || Error::new("timestamp overflow");
    Ok(match value {
        Value::Int(seconds) if time::SECONDS.contains(seconds) => {
            Some(Value::Timestamp(Timestamp::from_second(*seconds).map_err(|_| overflow())?))
        }
        Value::Int(_) => return Err(overflow()),
        Value::String(text) => match time::parse_timestamp(text) {
            Some(time) if time::SECONDS.contains(&time.as_second()) => Some(Value::Timestamp(time)),
            Some(_) => return Err(overflow()),
            None => None,
        },
        _ => None,
    })
}

fn to_duration<'a>(value: &Value<'a>) -> Result<Option<Value<'a>>, Error> {
    Ok(match value {
        Value::String(text) => time::parse_duration(text).map(Value::Duration),
        _ => None,
    })
}
