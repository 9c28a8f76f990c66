//! Go's durations: `1h2m3s`, `1.5s`, `100ms`.

use jiff::SignedDuration;

/// A text that is not a Go duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {problem}")]
pub struct InvalidDuration {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("it is longer than 292 years")]
    TooLong,
    #[error("it is empty; write a number and a unit, such as 30s")]
    Empty,
    #[error("a number was expected")]
    NoNumber,
    #[error("a unit is missing (ns, us, ms, s, m, h)")]
    NoUnit,
    #[error("the unit {0:?} is none of ns, us, ms, s, m, h")]
    UnknownUnit(String),
}

impl InvalidDuration {
    /// The error text of Go's `time.ParseDuration`.
    pub fn as_go(&self) -> String {
        let text = &self.text;
        match &self.problem {
            Problem::NoUnit => format!("time: missing unit in duration {text:?}"),
            Problem::UnknownUnit(unit) => format!("time: unknown unit {unit:?} in duration {text:?}"),
            Problem::TooLong | Problem::Empty | Problem::NoNumber => {
                format!("time: invalid duration {text:?}")
            }
        }
    }
}

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
];
const SECOND: i128 = 1_000_000_000;

/// Parses a duration as Go's `time.ParseDuration`: numbers with units, up to about 292 years.
pub fn parse_duration(text: &str) -> Result<SignedDuration, InvalidDuration> {
    let invalid = |problem| InvalidDuration { text: text.chars().take(64).collect(), problem };
    let too_long = || invalid(Problem::TooLong);
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid(Problem::Empty));
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (whole, after) = rest.split_at(digits(rest));
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid(Problem::NoNumber));
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, unit) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(|| {
            invalid(match unit {
                "" => Problem::NoUnit,
                unit => Problem::UnknownUnit(unit.chars().take(64).collect()),
            })
        })?;
        nanos = nanos.saturating_add(nanos_of(whole, fraction, *unit).ok_or_else(too_long)?);
        rest = after;
    }
    let signed = if negative { -nanos } else { nanos };
    i64::try_from(signed).map(SignedDuration::from_nanos).map_err(|_| too_long())
}

fn nanos_of(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // In floating point and with as many digits as fit, as in Go.
    let (mut part, mut scale) = (0i64, 1f64);
    for digit in fraction.bytes().map(|digit| i64::from(digit - b'0')) {
        let Some(longer) = part.checked_mul(10).and_then(|part| part.checked_add(digit)) else { break };
        part = longer;
        scale *= 10.0;
    }
    let part = part as f64 * (unit as f64 / scale);
    whole.checked_mul(unit)?.checked_add(part as i128)
}

/// Prints as Go does: `1h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let second = SECOND.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < second {
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(nanos, unit));
    }
    let (minutes, seconds) = (nanos / (60 * second), nanos % (60 * second));
    let seconds = decimal(seconds, second);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// `number / unit`, where `unit` is a power of ten, without trailing zeros.
fn decimal(number: u128, unit: u128) -> String {
    let (whole, part) = (number / unit, number % unit);
    if part == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{part:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_and_printed_as_go_does() {
        #[rustfmt::skip]
        let table = [
            // text                 nanoseconds              printed
            ("0",                   0,                       "0s"),
            ("-0",                  0,                       "0s"),
            ("5s",                  5_000_000_000,           "5s"),
            ("1.5s",                1_500_000_000,           "1.5s"),
            (".5m",                 30_000_000_000,          "30s"),
            ("1.m",                 60_000_000_000,          "1m0s"),
            ("1h2m3s",              3_723_000_000_000,       "1h2m3s"),
            ("90m",                 5_400_000_000_000,       "1h30m0s"),
            ("100ms",               100_000_000,             "100ms"),
            ("1us",                 1_000,                   "1µs"),
            ("1.5µs",               1_500,                   "1.5µs"),
            ("1.25μs",              1_250,                   "1.25µs"),
            ("1ns",                 1,                       "1ns"),
            ("-1.001s",             -1_001_000_000,          "-1.001s"),
            ("+3s",                 3_000_000_000,           "3s"),
            ("0.3333333333333333333h", 1_200_000_000_000,     "20m0s"),
            ("3m0.5s",              180_500_000_000,         "3m0.5s"),
            ("2562047h47m16.854775807s", i64::MAX,           "2562047h47m16.854775807s"),
        ];
        for (text, nanos, printed) in table {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_nanos(), i128::from(nanos), "{text}");
            assert_eq!(format_duration(duration), printed, "{text}");
        }
    }

    #[test]
    fn texts_that_go_refuses_are_refused() {
        for text in [
            "",
            "-",
            "3",
            "s",
            ".",
            ".s",
            "1x",
            "1d",
            "1 s",
            "1s ",
            "--1s",
            "1e3s",
            "2562048h",
            "99999999999999999999999999999999999999999h",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{:?}", text)), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(.{0,20}|[0-9.]{0,40}(ns|us|µs|ms|s|m|h)?){1,4}") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn printed_durations_read_back(nanos in any::<i64>()) {
            let duration = SignedDuration::from_nanos(nanos);
            let text = format_duration(duration);
            prop_assert_eq!(parse_duration(&text), Ok(duration));
        }
    }
}
