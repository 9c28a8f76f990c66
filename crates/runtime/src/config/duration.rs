//! Durations in Go's format (`1h0m0s`, `1.5s`, `100ms`), for flags and /configz.

use std::time::Duration;

use flyball_api::time::{SignedDuration, format_duration, parse_duration};
use serde::Serializer;

/// Parses a Go duration. Negative ones are refused: no setting of a controller manager may be negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    Duration::try_from(duration).map_err(|_| format!("{text:?} is negative"))
}

/// Writes a duration as Go's `Duration.String` does.
pub fn print(duration: Duration) -> String {
    format_duration(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
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
