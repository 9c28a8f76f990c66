//! Flag values: parsed into options and formatted, by pflag's rules for each type.

use std::{collections::BTreeMap, net::IpAddr, str::FromStr};

use flyball_runtime::config::duration;

use super::Field;
use crate::options::Options;

/// Sets a value. The first value of a list replaces the default, later ones are appended.
pub(super) fn set(field: &Field, options: &mut Options, text: &str, first: bool) -> Result<(), String> {
    match field {
        Field::Bool(place) => *place(options) = boolean(text)?,
        Field::Int(place) | Field::Int32(place) => *place(options) = integer(text)?,
        Field::Level(place) => {
            *place(options) =
                text.parse().map_err(|_| format!("{text:?} is not a verbosity such as 0 or 4"))?
        }
        Field::Float32(place) => *place(options) = float(text)?,
        Field::Float64(place) => *place(options) = float(text)?,
        Field::Text(place) => *place(options) = text.to_owned(),
        Field::Duration(place) => *place(options) = duration::parse(text)?,
        Field::Ip(place) => {
            *place(options) =
                text.trim().parse::<IpAddr>().map_err(|_| format!("{text:?} is not an IP address"))?
        }
        Field::Quantity(place) => *place(options) = quantity(text)?.to_owned(),
        Field::Modules(place) => *place(options) = modules(text)?.to_owned(),
        Field::List(place) => append(place(options), comma_separated(text)?, first),
        Field::Int32List(place) => {
            let numbers = text.split(',').filter(|item| !item.is_empty()).map(|item| integer(item.trim()));
            append(place(options), numbers.collect::<Result<_, _>>()?, first);
        }
        Field::CertKeys(place) => append(place(options), vec![cert_key(text)?.to_owned()], first),
        Field::Gates(place) => append(place(options), gates(text), first),
        Field::PlainGates(place) => append(place(options), plain_gates(text)?, first),
        Field::Map(place) => {
            let pairs = pairs(text)?;
            let map = place(options);
            if first {
                map.clear();
            }
            map.extend(pairs);
        }
        Field::Vendor(field) => field.set(&mut options.vendor, text)?,
        Field::Help | Field::Version => {}
    }
    Ok(())
}

/// A value as `/flagz` and `--help` show it.
pub(super) fn print(field: &Field, options: &mut Options) -> String {
    match field {
        Field::Bool(place) => place(options).to_string(),
        Field::Int(place) | Field::Int32(place) => place(options).to_string(),
        Field::Level(place) => place(options).to_string(),
        Field::Float32(place) => place(options).to_string(),
        Field::Float64(place) => place(options).to_string(),
        Field::Text(place) | Field::Quantity(place) | Field::Modules(place) => place(options).clone(),
        Field::Duration(place) => duration::print(*place(options)),
        Field::Ip(place) => place(options).to_string(),
        Field::List(place) => {
            let quoted: Vec<String> = place(options).iter().map(|item| quoted(item)).collect();
            format!("[{}]", quoted.join(","))
        }
        Field::CertKeys(place) => format!("[{}]", place(options).join(";")),
        Field::Int32List(place) => {
            let numbers: Vec<String> = place(options).iter().map(i32::to_string).collect();
            format!("[{}]", numbers.join(","))
        }
        Field::Gates(place) => {
            let mut given = place(options).clone();
            // Stable, by component: the values of one component keep their order.
            given.sort_by(|a, b| component(a).cmp(component(b)));
            given.join(",")
        }
        Field::PlainGates(place) => place(options).join(","),
        Field::Map(place) => {
            let pairs: Vec<String> =
                place(options).iter().map(|(k, v)| quoted(&format!("{k}={v}"))).collect();
            format!("[{}]", pairs.join(","))
        }
        Field::Vendor(field) => options.vendor.text(field).to_owned(),
        Field::Help | Field::Version => "false".to_owned(),
    }
}

fn append<T>(list: &mut Vec<T>, items: Vec<T>, first: bool) {
    if first {
        list.clear();
    }
    list.extend(items);
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Go's base-0 integers: decimal, or with the prefix 0x, 0o, 0 or 0b; underscores between digits.
pub(super) fn integer(text: &str) -> Result<i32, String> {
    let invalid = || format!("{text:?} is not a whole number between {} and {}", i32::MIN, i32::MAX);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.to_ascii_lowercase();
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, &digits[2..]),
        [b'0', b'b', ..] => (2, &digits[2..]),
        [b'0', b'o', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    let digits = digits.replace('_', "");
    if digits.starts_with(['+', '-']) {
        return Err(invalid());
    }
    let magnitude = i64::from_str_radix(&digits, radix).map_err(|_| invalid())?;
    i32::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| invalid())
}

fn float<F: FromStr + Into<f64> + Copy>(text: &str) -> Result<F, String> {
    match text.parse::<F>() {
        Ok(value) if value.into().is_finite() => Ok(value),
        _ => Err(format!("{text:?} is not a number")),
    }
}

fn quantity(text: &str) -> Result<&str, String> {
    const SUFFIXES: [&str; 13] = ["", "k", "K", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(number_end);
    if number.parse::<f64>().is_ok() && SUFFIXES.contains(&suffix) {
        Ok(text)
    } else {
        Err(format!("{text:?} is not a size such as 512, 4K or 2Mi"))
    }
}

fn modules(text: &str) -> Result<&str, String> {
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let valid = item.split_once('=').is_some_and(|(pattern, level)| {
            !pattern.is_empty() && level.parse::<i32>().is_ok_and(|n| n >= 0)
        });
        if !valid {
            return Err(format!("{item:?} is not of the form pattern=N"));
        }
    }
    Ok(text)
}

fn cert_key(text: &str) -> Result<&str, String> {
    let files = text.split(':').next().unwrap_or_default();
    match files.split(',').collect::<Vec<_>>()[..] {
        [cert, key] if !cert.trim().is_empty() && !key.trim().is_empty() => Ok(text),
        _ => Err(format!("{text:?} is not of the form certificate,key or certificate,key:domain,domain")),
    }
}

/// Each gate with its component in front, as `/flagz` shows them (`:Name=true` for the default one).
fn gates(text: &str) -> Vec<String> {
    let items = text.split(',').filter(|item| !item.is_empty());
    items
        .map(|item| match item.split_once(':') {
            Some((component, setting)) => format!("{}:{}", component.trim(), setting.trim()),
            None => format!(":{}", item.trim()),
        })
        .collect()
}

/// Gates of a process without components.
fn plain_gates(text: &str) -> Result<Vec<String>, String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| match item.contains(':') {
            true => Err(format!("{item:?} names a component; here gates are Name=true or Name=false")),
            false => Ok(item.to_owned()),
        })
        .collect()
}

fn component(gate: &str) -> &str {
    gate.split(':').next().unwrap_or_default()
}

/// `key=value` pairs. A single pair may hold commas in key and value, as label allow lists need it.
fn pairs(text: &str) -> Result<BTreeMap<String, String>, String> {
    let items = match text.matches('=').count() {
        0 => return Err(format!("{text:?} is not of the form key=value")),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => comma_separated(text)?,
    };
    items
        .into_iter()
        .map(|item| match item.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("{item:?} is not of the form key=value")),
        })
        .collect()
}

/// One line of CSV: items may be quoted, with doubled quotes inside.
fn comma_separated(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(vec![]);
    }
    let mut items = vec![];
    let mut chars = text.chars().peekable();
    loop {
        let mut item = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next() {
                    Some('"') if chars.next_if_eq(&'"').is_some() => item.push('"'),
                    Some('"') => break,
                    Some(c) => item.push(c),
                    None => return Err(format!("a quote is not closed in {text:?}")),
                }
            }
        }
        while let Some(c) = chars.next_if(|c| *c != ',') {
            if c == '"' {
                return Err(format!("there is a stray quote in {text:?}"));
            }
            item.push(c);
        }
        items.push(item);
        if chars.next().is_none() {
            return Ok(items);
        }
    }
}

fn quoted(item: &str) -> String {
    if item.contains([',', '"']) { format!("\"{}\"", item.replace('"', "\"\"")) } else { item.to_owned() }
}
