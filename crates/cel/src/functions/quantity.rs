//! Quantities and versions.

use std::cmp::Ordering;

use flyball_api::quantity::{Format, Quantity};

use super::semver::Semver;
use super::{Function, overload, text_of};
use crate::error::Error;
use crate::eval::Outcome;
use crate::opaque::Opaque;
use crate::value::Value;

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |args| {
            let text = text_of(args.first())?;
            parse(text).map(made)
        },
        "isQuantity" => |args| Ok(Value::Bool(parse(text_of(args.first())?).is_ok())),
        "sign" => |args| {
            let amount = amount(args.first())?;
            Ok(Value::Int(i64::from(!amount.is_zero()) * if amount.is_negative() { -1 } else { 1 }))
        },
        "isInteger" => |args| Ok(Value::Bool(whole(&amount(args.first())?).is_some())),
        "asInteger" => |args| {
            let number = whole(&amount(args.first())?);
            number.map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
        },
        "asApproximateFloat" => |args| Ok(Value::Double(amount(args.first())?.to_f64())),
        "add" => |args| combined(args, |one, other| one + other),
        "sub" => |args| combined(args, |one, other| one - other),
        "isGreaterThan" => |args| Ok(Value::Bool(order(args)?.is_gt())),
        "isLessThan" => |args| Ok(Value::Bool(order(args)?.is_lt())),
        "compareTo" => |args| Ok(Value::Int(order(args)? as i64)),
        "semver" => |args| Semver::read(args).map(|version| Value::Opaque(Opaque::Semver(version.into()))),
        "isSemver" => |args| match Semver::read(args) {
            Err(error) if error == Error::no_such_overload() => Err(error),
            read => Ok(Value::Bool(read.is_ok())),
        },
        "major" => |args| number(args, |version| version.major),
        "minor" => |args| number(args, |version| version.minor),
        "patch" => |args| number(args, |version| version.patch),
        _ => return None,
    })
}

fn made<'a>(amount: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(amount))
}

fn parse(text: &str) -> Result<Quantity, Error> {
    let syntax =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    if text.is_empty() {
        return Err(Error::new(syntax));
    }
    // Upstream: resource.ParseQuantity has different errors for a text that does not match the pattern and for an unknown suffix.
    let rest = text.trim_start_matches(['+', '-']);
    let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_number = digits.len() < rest.len();
    text.parse().map_err(|_| {
        let is_shaped =
            is_number && digits.chars().all(|c| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit());
        match is_shaped && text.matches('.').count() <= 1 {
            true => Error::new("unable to parse quantity's suffix"),
            false => Error::new(syntax),
        }
    })
}

fn amount(value: Option<&Value<'_>>) -> Result<Quantity, Error> {
    match value {
        Some(Value::Opaque(Opaque::Quantity(amount))) => Ok(*amount),
        _ => overload(),
    }
}

fn whole(amount: &Quantity) -> Option<i64> {
    let value = amount.value();
    (amount.is_whole() && Quantity::new(value) == *amount).then_some(value)
}

fn combined<'a>(args: &mut [Value<'a>], with: fn(Quantity, Quantity) -> Quantity) -> Outcome<'a> {
    let one = amount(args.first())?;
    let other = match args.get(1) {
        Some(Value::Int(number)) => Quantity::new(*number).with_format(Format::DecimalExponent),
        other => amount(other)?,
    };
    Ok(made(with(one, other)))
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    match args {
        [Value::Opaque(Opaque::Semver(one)), Value::Opaque(Opaque::Semver(other))] => Ok(one.order(other)),
        [one, other] => Ok(amount(Some(one))?.cmp(&amount(Some(other))?)),
        _ => overload(),
    }
}

fn number<'a>(args: &mut [Value<'a>], of: fn(&Semver) -> u64) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Semver(version))] => Ok(Value::Int(of(version) as i64)),
        _ => overload(),
    }
}
