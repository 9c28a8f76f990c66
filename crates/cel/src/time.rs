//! Timestamps and durations as text, as Go parses and prints them.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// The seconds of valid timestamps: years 1 to 9999.
pub(crate) const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Reads RFC 3339 strictly: `2024-05-01T10:00:00.5Z`, or with an offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let is_shaped = bytes.len() >= 20
        && bytes.iter().take(19).enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    if !is_shaped || bytes.get(17..19) == Some(b"60") {
        return None;
    }
    let rest = text.get(19..)?;
    let zone =
        rest.trim_start_matches(['.', ','].as_slice()).trim_start_matches(|c: char| c.is_ascii_digit());
    let fraction = rest.strip_suffix(zone)?;
    let has_good_fraction = fraction.is_empty() || fraction.len() > 1;
    let is_zone = zone == "Z"
        || (zone.len() == 6
            && zone.starts_with(['+', '-'])
            && zone.as_bytes().get(3) == Some(&b':')
            && zone.chars().filter(char::is_ascii_digit).count() == 4);
    if !has_good_fraction || !is_zone {
        return None;
    }
    // Digits beyond nanoseconds are cut off.
    let fraction: String = fraction.chars().take(10).collect::<String>().replace(',', ".");
    format!("{}{fraction}{zone}", text.get(..19)?).parse().ok()
}

pub(crate) fn show_timestamp(time: Timestamp) -> String {
    time.to_string()
}

/// The zone by name, or as `[+-]hours:minutes`.
pub(crate) fn zone(name: &str) -> Result<TimeZone, String> {
    let Some((hours, minutes)) = name.split_once(':') else {
        if name.is_empty() || name == "UTC" {
            return Ok(TimeZone::UTC);
        }
        return TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"));
    };
    let number = |text: &str| {
        let parsed = text.parse::<i32>();
        parsed.map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", crate::go::quoted(text)))
    };
    let (hours_number, minutes) = (number(hours)?, number(minutes)?);
    let signed = if name.starts_with('-') { -minutes } else { minutes };
    let seconds = hours_number.saturating_mul(60).saturating_add(signed).saturating_mul(60);
    Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| format!("unknown time zone {name}"))
}

/// Reads `1h2m3.5s` in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    i64::try_from(flyball_api::time::parse_duration(text).ok()?.as_nanos()).ok()
}

pub(crate) fn show_duration(nanos: i64) -> String {
    format!("{}s", seconds(nanos))
}

/// Computed as in Go, for the same rounding: whole seconds and the rest are added as doubles.
pub(crate) fn seconds(nanos: i64) -> f64 {
    (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9
}
