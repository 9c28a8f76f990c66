//! Durations in Go's format (`1h0m0s`, `1.5s`, `100ms`), for flags and /configz.

use std::time::Duration;

use serde::Serializer;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a Go duration. Negative ones are refused: no setting of a controller manager may be negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a duration such as 90s, 1h30m or 250ms");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" || rest == "-0" {
        return Ok(Duration::ZERO);
    }
    if rest.starts_with('-') {
        return Err(format!("{text:?} is negative"));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale =
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale).ok_or_else(invalid)?;
        let part = scaled(number, scale).ok_or_else(invalid)?;
        nanos = nanos.checked_add(part).ok_or_else(|| format!("{text:?} is too long"))?;
        rest = tail;
    }
    if nanos > i64::MAX as u64 {
        return Err(format!("{text:?} is too long"));
    }
    Ok(Duration::from_nanos(nanos))
}

fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(scale)?;
    let mut weight = scale;
    for digit in fraction.chars() {
        weight /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?) * weight)?;
    }
    Some(nanos)
}

/// Writes a duration as Go's `Duration.String` does.
pub fn print(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (unit, scale) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanos, scale));
    }
    let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(nanos: u128, scale: u128) -> String {
    let fraction = nanos % scale;
    if fraction == 0 {
        return (nanos / scale).to_string();
    }
    let width = scale.to_string().len() - 1;
    format!("{}.{}", nanos / scale, format!("{fraction:0width$}").trim_end_matches('0'))
}

pub(super) fn serialize<S: Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&print(*duration))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_writes_durations_as_go_does() {
        #[rustfmt::skip]
        let table = [
            // given      nanoseconds             printed
            ("0",         0,                      "0s"),
            ("15s",       15_000_000_000,         "15s"),
            ("1.5s",      1_500_000_000,          "1.5s"),
            ("100ms",     100_000_000,            "100ms"),
            ("1us",       1_000,                  "1µs"),
            ("1h",        3_600_000_000_000,      "1h0m0s"),
            ("90m",       5_400_000_000_000,      "1h30m0s"),
            ("5m",        300_000_000_000,        "5m0s"),
            ("8760h",     31_536_000_000_000_000, "8760h0m0s"),
            ("1h1m1.25s", 3_661_250_000_000,      "1h1m1.25s"),
            (".5s",       500_000_000,            "500ms"),
        ];
        for (given, nanos, printed) in table {
            let duration = parse(given).unwrap();
            assert_eq!(duration, Duration::from_nanos(nanos), "{given}");
            assert_eq!(print(duration), printed, "{given}");
        }
        for bad in ["", "5", "s", "1x", "-5s", "1.2.3s", "999999999999h", "5s ", "１s"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_back_changes_nothing(nanos in 0..i64::MAX as u64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&print(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
