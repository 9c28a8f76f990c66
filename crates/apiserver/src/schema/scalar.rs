//! The canonical texts of scalars, as the real server stores them: quantities, times, durations.

use jiff::Timestamp;

/// `1000m` → `1`, `0.5` → `500m`, `1024Mi` → `1Gi`; `None` when it is no quantity.
pub fn quantity(text: &str) -> Option<String> {
    let parsed = Quantity::parse(text)?;
    Some(parsed.canonical())
}

/// RFC 3339 with seconds in UTC.
pub fn time(text: &str) -> Option<String> {
    let at: Timestamp = text.parse().ok()?;
    Some(format_time(at))
}

/// RFC 3339 with microseconds in UTC.
pub fn micro_time(text: &str) -> Option<String> {
    let at: Timestamp = text.parse().ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

/// A time as objects carry it.
pub fn format_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A Go duration in its canonical form: `90s` → `1m30s`.
pub fn duration(text: &str) -> Option<String> {
    let nanos = parse_duration(text)?;
    Some(format_duration(nanos))
}

fn parse_duration(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(scale)?)?;
        if !fraction.is_empty() {
            let digits: i128 = fraction.get(..fraction.len().min(18))?.parse().ok()?;
            total += digits * scale / 10_i128.pow(fraction.len().min(18) as u32);
        }
        rest = tail;
    }
    (total <= i64::MAX as i128).then_some(if negative { -total } else { total })
}

fn format_duration(nanos: i128) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let decimal = |value: u128, scale: u128, unit: &str| {
        let (whole, rest) = (value / scale, value % scale);
        if rest == 0 {
            return format!("{whole}{unit}");
        }
        let width = scale.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
    };
    let text = match nanos {
        n if n < 1_000 => format!("{n}ns"),
        n if n < 1_000_000 => decimal(n, 1_000, "µs"),
        n if n < 1_000_000_000 => decimal(n, 1_000_000, "ms"),
        n => {
            let seconds = decimal(n % 60_000_000_000, 1_000_000_000, "s");
            let (hours, minutes) = (n / 3_600_000_000_000, n / 60_000_000_000 % 60);
            match (hours, minutes) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

/// A quantity as an exact number of nano-units, with the family of suffixes it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Value × 10⁹.
    pub nanos: i128,
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0, family: Family::Decimal };

    /// A whole number.
    pub fn whole(n: i64) -> Self {
        Quantity { nanos: n as i128 * NANO, family: Family::Decimal }
    }

    /// Reads a quantity; fractions of a nano-unit round up, as upstream's do.
    pub fn parse(text: &str) -> Option<Self> {
        let number_end = text
            .char_indices()
            .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && (*c == '-' || *c == '+'))))
            .map_or(text.len(), |(at, _)| at);
        let (number, suffix) = text.split_at(number_end);
        let negative = number.starts_with('-');
        let digits = number.trim_start_matches(['-', '+']);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let mut mantissa: i128 = 0;
        for c in whole.chars().chain(fraction.chars()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(c.to_digit(10)? as i128)?;
        }
        let places = fraction.len() as i32;
        let (family, nanos) = if let Some(power) = BINARY.iter().position(|s| *s == suffix) {
            let scaled = mantissa.checked_mul(1 << (10 * (power + 1)))?;
            (Family::Binary, shift(scaled, 9 - places)?)
        } else if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
            (Family::Decimal, shift(mantissa, power + 9 - places)?)
        } else {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            if power.abs() > 40 {
                return None;
            }
            (Family::Exponent, shift(mantissa, power + 9 - places)?)
        };
        Some(Self { nanos: if negative { -nanos } else { nanos }, family })
    }

    /// The sum, in the first one's family (or the other's, when this is zero).
    pub fn plus(self, other: Self) -> Self {
        let family = if self.nanos == 0 { other.family } else { self.family };
        Self { nanos: self.nanos.saturating_add(other.nanos), family }
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }

    /// The canonical text.
    pub fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let (sign, value) = (if self.nanos < 0 { "-" } else { "" }, self.nanos.abs());
        if self.family == Family::Binary && value % NANO == 0 && value / NANO >= 1024 {
            let (mut number, mut power) = (value / NANO, 0);
            while number % 1024 == 0 && power < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            let suffix = if power == 0 { "" } else { BINARY[power - 1] };
            return format!("{sign}{number}{suffix}");
        }
        let (mut number, mut power) = (value, -9);
        while number % 1000 == 0 && power < 18 {
            number /= 1000;
            power += 3;
        }
        if self.family == Family::Exponent && power != 0 {
            return format!("{sign}{number}e{power}");
        }
        let suffix = DECIMAL.iter().find(|(_, p)| *p == power).map_or("", |(s, _)| s);
        format!("{sign}{number}{suffix}")
    }
}

/// `value × 10^power`, rounding up what falls off.
fn shift(value: i128, power: i32) -> Option<i128> {
    if power >= 0 {
        return value.checked_mul(10_i128.checked_pow(power as u32)?);
    }
    let divisor = 10_i128.checked_pow(power.unsigned_abs())?;
    Some(value / divisor + i128::from(value % divisor != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_have_one_canonical_text() {
        #[rustfmt::skip]
        let table = [
            ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("100Mi", "100Mi"), ("1.5Gi", "1536Mi"), ("1500k", "1500k"),
            ("2000k", "2M"), ("0", "0"), ("0Gi", "0"), ("-5", "-5"), ("1e3", "1e3"), ("12e6", "12e6"), ("512Ki", "512Ki"),
            ("1Ki", "1Ki"), ("0.5Ki", "512"), ("128", "128"), ("3", "3"), ("1.0", "1"), ("100n", "100n"),
        ];
        for (text, want) in table {
            assert_eq!(quantity(text).as_deref(), Some(want), "{text}");
        }
        for text in ["", "m", "1.2.3", "abc", "1Xi", "1 Gi", "--1"] {
            assert_eq!(quantity(text), None, "{text}");
        }
        for (text, want) in
            [("90s", "1m30s"), ("1h", "1h0m0s"), ("1.5s", "1.5s"), ("100ms", "100ms"), ("0", "0s")]
        {
            assert_eq!(duration(text).as_deref(), Some(want), "{text}");
        }
        assert_eq!(time("2024-01-02T03:04:05.6+01:00").as_deref(), Some("2024-01-02T02:04:05Z"));
        assert_eq!(micro_time("2024-01-02T03:04:05Z").as_deref(), Some("2024-01-02T03:04:05.000000Z"));
    }
}
