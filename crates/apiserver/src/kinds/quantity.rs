//! Resource quantities as the server reads and prints them: exact, canonical, never finer than a nano-unit.

use std::cmp::Ordering;

/// What a text that is no quantity is answered with.
pub(crate) const SYNTAX: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A quantity in nano-units, with the notation in which it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: i128,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

impl Quantity {
    /// Reads a quantity; finer digits than nano-units round away from zero, as upstream does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (form, multiplier, power) = suffix_scale(suffix)?;
        let digits: String = whole.chars().chain(fraction.chars()).collect();
        let digits = digits.trim_start_matches('0');
        if digits.len() > 36 {
            return None;
        }
        let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scaled = scale(mantissa.checked_mul(multiplier)?, power - fraction.len() as i32 + 9)?;
        Some(Self { nanos: if negative { -scaled } else { scaled }, form })
    }

    /// Rounds up to whole milli-units, as quantities in resource lists are.
    pub(crate) fn round_up_to_milli(self) -> Self {
        let unit = NANO / 1000;
        let up = self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0);
        Self { nanos: up * unit, ..self }
    }

    /// The sign: negative, zero or positive.
    pub(crate) fn sign(self) -> Ordering {
        self.nanos.cmp(&0)
    }

    /// Compares the amounts, whatever their notation.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// Whether it is a whole number of units.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The sum, in the notation of the first that is not zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: self.nanos.saturating_add(other.nanos), form }
    }

    /// The difference.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }

    /// The amount as a floating-point number, for ratios.
    pub(crate) fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// The canonical text: no fraction, no needless digits, the largest suffix that allows it.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if self.form == Form::Binary && self.nanos % NANO == 0 && self.nanos.abs() >= 1024 * NANO {
            let (mut value, mut suffix) = (self.nanos / NANO, "");
            for next in BINARY {
                if value % 1024 != 0 {
                    break;
                }
                (value, suffix) = (value / 1024, next);
            }
            return format!("{value}{suffix}");
        }
        let (mut value, mut power) = (self.nanos, -9);
        while value % 1000 == 0 && power < 18 {
            (value, power) = (value / 1000, power + 3);
        }
        match self.form {
            Form::Exponent if power != 0 => format!("{value}e{power}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, p)| *p == power).map_or("", |(s, _)| s);
                format!("{value}{suffix}")
            }
        }
    }
}

fn suffix_scale(suffix: &str) -> Option<(Form, i128, i32)> {
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some((Form::Binary, 1 << (10 * (at + 1)), 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((Form::Decimal, 1, *power));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-30..=30).contains(&exponent).then_some((Form::Exponent, 1, exponent))
}

/// `value · 10^power`, rounded away from zero.
fn scale(value: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        value.checked_mul(factor)
    } else {
        Some(value / factor + i128::from(value % factor != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_print_canonically() {
        #[rustfmt::skip]
        let table = [
            ("0", Some("0")), ("1", Some("1")), ("0.5", Some("500m")), ("1.5", Some("1500m")), ("1000m", Some("1")),
            ("100m", Some("100m")), ("1024", Some("1024")), ("1024Ki", Some("1Mi")), ("1.5Gi", Some("1536Mi")),
            ("0.5Ki", Some("512")), ("1000", Some("1k")), ("1000k", Some("1M")), ("1e3", Some("1e3")), ("1E3", Some("1e3")),
            ("12e2", Some("1200")), ("-1", Some("-1")), ("+5", Some("5")), (".5", Some("500m")), ("5.", Some("5")),
            ("1n", Some("1n")), ("0.0000000001", Some("1n")), ("0Mi", Some("0")), ("2Ei", Some("2Ei")), ("1E", Some("1E")),
            ("", None), ("abc", None), ("1.2.3", None), ("1Kb", None), ("Gi", None), ("1 Gi", None), ("--1", None),
        ];
        for (text, want) in table {
            assert_eq!(Quantity::parse(text).map(Quantity::canonical).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn resource_lists_keep_nothing_finer_than_milli() {
        assert_eq!(Quantity::parse("1u").unwrap().round_up_to_milli().canonical(), "1m");
        assert_eq!(Quantity::parse("1500u").unwrap().round_up_to_milli().canonical(), "2m");
    }
}
