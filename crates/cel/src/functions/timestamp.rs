//! Timestamps and durations.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use super::{Function, overload};
use crate::error::Error;
use crate::eval::Outcome;
use crate::time;
use crate::value::Value;

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |args| part(args, |at| i64::from(at.year()), None),
        "getMonth" => |args| part(args, |at| i64::from(at.month()) - 1, None),
        "getDate" => |args| part(args, |at| i64::from(at.day()), None),
        "getDayOfMonth" => |args| part(args, |at| i64::from(at.day()) - 1, None),
        "getDayOfWeek" => |args| part(args, |at| i64::from(at.weekday().to_sunday_zero_offset()), None),
        "getDayOfYear" => |args| part(args, |at| i64::from(at.day_of_year()) - 1, None),
        "getHours" => |args| part(args, |at| i64::from(at.hour()), Some(3_600_000_000_000)),
        "getMinutes" => |args| part(args, |at| i64::from(at.minute()), Some(60_000_000_000)),
        "getSeconds" => |args| part(args, |at| i64::from(at.second()), Some(1_000_000_000)),
        "getMilliseconds" => {
            |args| part(args, |at| i64::from(at.subsec_nanosecond()) / 1_000_000, Some(1_000_000))
        }
        _ => return None,
    })
}

/// A part of a time in a zone, or how many `unit`s a duration has.
fn part<'a>(args: &mut [Value<'a>], of: fn(DateTime) -> i64, unit: Option<i64>) -> Outcome<'a> {
    match args {
        [Value::Timestamp(time)] => Ok(Value::Int(of(time.to_zoned(jiff::tz::TimeZone::UTC).datetime()))),
        [Value::Timestamp(time), Value::String(zone)] => {
            let zone = time::zone(zone).map_err(Error::new)?;
            Ok(Value::Int(of(time.to_zoned(zone).datetime())))
        }
        [Value::Duration(nanos)] => match unit {
            Some(unit) => Ok(Value::Int(*nanos / unit)),
            None => overload(),
        },
        _ => overload(),
    }
}

fn duration_overflow() -> Error {
    Error::new("integer overflow")
}

fn at<'a>(nanos: i128) -> Outcome<'a> {
    let overflow = || Error::new("timestamp overflow");
    let time = Timestamp::from_nanosecond(nanos).map_err(|_| overflow())?;
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|_| overflow())?;
    if time::SECONDS.contains(&seconds) { Ok(Value::Timestamp(time)) } else { Err(overflow()) }
}

pub(super) fn add<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    match (one, other) {
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_add(*other).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Duration(span), Value::Timestamp(time)) | (Value::Timestamp(time), Value::Duration(span)) => {
            at(time.as_nanosecond() + i128::from(*span))
        }
        _ => overload(),
    }
}

pub(super) fn subtract<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    match (one, other) {
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_sub(*other).map(Value::Duration).ok_or_else(duration_overflow)
        }
        (Value::Timestamp(time), Value::Duration(span)) => at(time.as_nanosecond() - i128::from(*span)),
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            let span: SignedDuration = one.duration_since(*other);
            i64::try_from(span.as_nanos()).map(Value::Duration).map_err(|_| duration_overflow())
        }
        _ => overload(),
    }
}
