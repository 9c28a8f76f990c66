//! Times as the API writes them: whole seconds in UTC for most, microseconds for leases and events.

mod duration;

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use jiff::{civil::date, fmt::temporal::Pieces};

pub use duration::{InvalidDuration, format_duration, parse_duration};
pub use jiff::{SignedDuration, Timestamp};

/// Formats as metav1.Time: RFC 3339 in UTC, seconds. The last timestamp stands for the last second of the year 9999, see
/// [`is_last_of_all`]: a Job whose `startTime` it is must not be written with another.
pub fn format_seconds(time: Timestamp) -> String {
    if time.as_second() == Timestamp::MAX.as_second() {
        return "9999-12-31T23:59:59Z".to_owned();
    }
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats as metav1.MicroTime: RFC 3339 in UTC, always six digits of fraction.
pub fn format_micros(time: Timestamp) -> String {
    if time.as_second() == Timestamp::MAX.as_second() {
        return "9999-12-31T23:59:59.999999Z".to_owned();
    }
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Parses RFC 3339 as strictly as Go: a date, `T`, a time with seconds, and `Z` or an offset.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = |(byte, wanted): (&u8, &u8)| match wanted {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    let (date_time, rest) = bytes.split_at_checked(shape.len())?;
    let fraction = rest.iter().position(|byte| !matches!(byte, b'.' | b'0'..=b'9'))?;
    let (fraction, zone) = rest.split_at(fraction);
    let is_fraction = fraction.is_empty()
        || fraction.len() > 1
            && fraction.strip_prefix(b".").is_some_and(|digits| digits.iter().all(u8::is_ascii_digit));
    let is_offset =
        || zone.len() == 6 && zone.iter().skip(1).zip(b"dd:dd").all(fits) && matches!(zone[0], b'+' | b'-');
    if !date_time.iter().zip(shape).all(fits) || !is_fraction || !(zone == b"Z" || is_offset()) {
        return None;
    }
    text.parse().ok().or_else(|| is_last_of_all(text).then_some(Timestamp::MAX))
}

/// Truncates to seconds, as the API does.
pub fn truncate(time: Timestamp) -> Timestamp {
    let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    Timestamp::from_second(seconds).unwrap_or(time)
}

/// A metav1.Time where serde's field attributes do not reach, such as in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_seconds(self.0))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = deserializer.deserialize_str(Rfc3339)?;
        time.map(Self).ok_or_else(|| de::Error::custom("a time is missing"))
    }
}

/// An optional time in whole seconds, in 8 bytes instead of 24: for what is cached by the million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactTime(i64);

impl CompactTime {
    const NONE: CompactTime = CompactTime(i64::MIN);

    pub(crate) fn get(self) -> Option<Timestamp> {
        Timestamp::from_second(self.0).ok()
    }
}

impl From<Option<Timestamp>> for CompactTime {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Self::NONE, |time| Self(time.as_second()))
    }
}

/// Whether a time is in the last hours of the year 9999, which a timestamp cannot represent. Users write it for "never"; the
/// last possible timestamp is used instead.
fn is_last_of_all(text: &str) -> bool {
    Pieces::parse(text).is_ok_and(|pieces| pieces.time().is_some() && pieces.date() >= date(9999, 12, 30))
}

/// By this name, a deserializer that has the time as a number is asked for its nanoseconds since 1970.
pub(crate) const TIME: &str = "$flyball::Time";

struct Rfc3339;

impl<'de> Visitor<'de> for Rfc3339 {
    type Value = Option<Timestamp>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an RFC 3339 time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let time =
            text.parse().or_else(|error| if is_last_of_all(text) { Ok(Timestamp::MAX) } else { Err(error) });
        time.map(Some)
            .map_err(|error: jiff::Error| E::custom(format_args!("{text:?} is not a time: {error}")))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_newtype_struct(TIME, self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_i128<E: de::Error>(self, nanoseconds: i128) -> Result<Self::Value, E> {
        Timestamp::from_nanosecond(nanoseconds).map(Some).map_err(E::custom)
    }
}

/// `#[serde(with = "time::seconds_opt")]`: an optional metav1.Time; null reads as none.
pub mod seconds_opt {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(format_seconds).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        deserializer.deserialize_option(Rfc3339)
    }
}

/// `#[serde(with = "time::micros_opt")]`: an optional metav1.MicroTime; null reads as none.
pub mod micros_opt {
    use super::*;

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(format_micros).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        deserializer.deserialize_option(Rfc3339)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_the_api_does() {
        let time: Timestamp = "2026-01-02T03:04:05.678901234+01:00".parse().unwrap();
        assert_eq!(format_seconds(time), "2026-01-02T02:04:05Z");
        assert_eq!(format_micros(time), "2026-01-02T02:04:05.678901Z");
        assert_eq!(format_micros(truncate(time)), "2026-01-02T02:04:05.000000Z");
        let ancient: Timestamp = "0001-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!(format_seconds(truncate(ancient)), "0001-01-01T00:00:00Z");
    }
    #[test]
    fn reads_what_the_api_server_takes() {
        #[rustfmt::skip]
        let table = [
            ("2026-01-02T03:04:05Z",        Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05+01:00",   Some("2026-01-02T02:04:05Z")),
            ("0001-01-01T00:00:00Z",        Some("0001-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59Z",        Some("9999-12-31T23:59:59Z")),
            ("9999-12-31T23:59:59.999999Z", Some("9999-12-31T23:59:59Z")),
            ("9999-12-30T21:59:59Z",        Some("9999-12-30T21:59:59Z")),
            ("9999-12-31",                  None),
            ("9999-13-31T23:59:59Z",        None),
            ("tomorrow",                    None),
        ];
        for (text, want) in table {
            let read = serde_json::from_value::<Time>(text.into()).ok();
            assert_eq!(read.map(|time| format_seconds(time.0)).as_deref(), want, "{text}");
        }
    }
}
