//! `format`: clauses such as `%s` and `%.2f` replaced by values.

use super::conversion::string_of;
use crate::go;
use crate::value::{List, Value};

/// The number of decimals if the clause has no precision.
const PRECISION: usize = 6;

/// The limit on decimals.
const MOST_DECIMALS: usize = 1000;

pub(super) fn format(text: &str, values: &List<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut next) = (text, 0);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let value = values.get(next).ok_or_else(|| format!("index {next} out of range"))?;
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (precision, after) =
            precision(rest).map_err(|why| format!("could not parse formatting clause: {why}"))?;
        let mut clause = after.chars();
        let letter = clause.next().ok_or("unexpected end of string")?;
        out.push_str(&one(letter, precision, &value)?);
        rest = clause.as_str();
        next += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn precision(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(after) = text.strip_prefix('.') else { return Ok((None, text)) };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.is_empty() {
        return Err("error while parsing precision: could not find end of precision specifier".to_owned());
    }
    let digits = &after[..after.len() - rest.len()];
    let number: usize = digits.parse().map_err(|_| {
        let shown = go::quoted(digits);
        format!(
            "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \
             {shown}: invalid syntax"
        )
    })?;
    Ok((Some(number.min(MOST_DECIMALS)), rest))
}

fn one(letter: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, String> {
    let of = value.type_name();
    let failed = |why: String| format!("error during formatting: {why}");
    let precision = precision.unwrap_or(PRECISION);
    match (letter, value) {
        ('s', value) => plain(value).map_err(failed),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('d', _) => Err(failed(format!("decimal clause can only be used on integers, was given {of}"))),
        ('f', value) => match double(value) {
            Some(number) => Ok(fixed(number, precision)),
            None => Err(failed(format!("fixed-point clause can only be used on doubles, was given {of}"))),
        },
        ('e', value) => match double(value) {
            // Upstream: Scientific uses the precision as the width.
            Some(number) => Ok(format!("{:>precision$}", scientific(number, PRECISION))),
            None => Err(failed(format!("scientific clause can only be used on doubles, was given {of}"))),
        },
        ('b', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', _) => {
            Err(failed(format!("only integers and bools can be formatted as binary, was given {of}")))
        }
        ('x' | 'X', value) => {
            let shown = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => {
                    return Err(failed(format!(
                        "only integers, byte buffers, and strings can be formatted as hex, was given {of}"
                    )));
                }
            };
            Ok(if letter == 'X' { shown.to_uppercase() } else { shown })
        }
        ('o', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => Err(failed(format!("octal clause can only be used on integers, was given {of}"))),
        (other, _) => {
            Err(format!("could not parse formatting clause: unrecognized formatting clause \"{other}\""))
        }
    }
}

fn signed(number: i64, show: fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", show(number.unsigned_abs()))
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// With a comma between thousands, as in English.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(special) = special(number) {
        return special.to_owned();
    }
    let shown = format!("{number:.precision$}");
    let (sign, digits) = shown.strip_prefix('-').map_or(("", shown.as_str()), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::with_capacity(shown.len() + whole.len() / 3);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// As in English text: `1.5×10⁰³`.
fn scientific(number: f64, precision: usize) -> String {
    if let Some(special) = special(number) {
        return special.to_owned();
    }
    let shown = go::scientific(number, precision);
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "+00"));
    let raised: String = exponent
        .chars()
        .filter_map(|c| match c {
            '+' => None,
            '-' => Some('⁻'),
            '1' => Some('¹'),
            '2' => Some('²'),
            '3' => Some('³'),
            digit => char::from_u32('⁰' as u32 + digit.to_digit(10)?),
        })
        .collect();
    format!("{digits}×10{raised}")
}

fn plain(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::List(_) | Value::Map(_) => nested(value),
        Value::Null => Ok("null".to_owned()),
        _ => string_of(value).filter(|_| !matches!(value, Value::Opaque(_))).ok_or_else(|| {
            let of = value.type_name();
            format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps, was given {of}"
            )
        }),
    }
}

/// A value inside a list or map, as it would be written in an expression.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => go::quoted(text),
        Value::Bytes(_) => format!("b{}", go::quoted(&plain(value)?)),
        Value::Timestamp(_) => format!("timestamp({})", go::quoted(&plain(value)?)),
        Value::Duration(_) => format!("duration({})", go::quoted(&plain(value)?)),
        Value::Double(number) if number.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(number) if number.is_infinite() => {
            if *number > 0.0 { "\"+Inf\"" } else { "\"-Inf\"" }.to_owned()
        }
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::List(list) => {
            let shown: Result<Vec<String>, String> = list.iter().map(|element| nested(&element)).collect();
            format!("[{}]", shown?.join(", "))
        }
        Value::Map(map) => {
            let mut shown = Vec::new();
            for (key, value) in map.iter() {
                if matches!(key, Value::Double(_)) {
                    return Err("no formatting function for map key of type double".to_owned());
                }
                shown.push((nested(&key)?, nested(&value)?));
            }
            shown.sort();
            let shown: Vec<String> = shown.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", shown.join(", "))
        }
        Value::Optional(_) | Value::Opaque(_) | Value::Message(_) | Value::Members(_) => {
            return Err(format!("no formatting function for {}", value.type_name()));
        }
        other => plain(other)?,
    })
}
