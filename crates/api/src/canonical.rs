//! JSON byte for byte as Go's `encoding/json` writes a map: sorted keys, HTML-safe escapes, Go's floats.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Writes `value` as `json.Marshal` would, with integers kept exact.
pub fn to_string(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    write_value(&mut out, value, Numbers::Exact);
    out
}

/// Writes `value` as Go does after `json.Unmarshal` into a `map[string]any`, which makes every number a float64.
/// ControllerRevision data is written so.
pub fn to_string_via_float64(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    write_value(&mut out, value, Numbers::Float64);
    out
}

#[derive(Clone, Copy)]
enum Numbers {
    Exact,
    Float64,
}

fn write_value(out: &mut String, value: &Value, numbers: Numbers) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number, numbers),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item, numbers);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in fields.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, item, numbers);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &Number, numbers: Numbers) {
    // Writing to a String cannot fail.
    let _ = match (number.as_i64(), number.as_u64(), numbers) {
        (Some(integer), _, Numbers::Exact) => write!(out, "{integer}"),
        (None, Some(integer), Numbers::Exact) => write!(out, "{integer}"),
        _ => {
            write_float(out, number.as_f64().unwrap_or_default());
            Ok(())
        }
    };
}

/// The shortest digits that read back as the same float; an exponent only for very small and very large ones.
fn write_float(out: &mut String, float: f64) {
    let magnitude = float.abs();
    let _ = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => write!(out, "{digits}e+{exponent}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{float}")
    };
}

pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
