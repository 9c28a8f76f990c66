//! Amounts of resources (`250m`, `1.5Gi`, `12e6`): exact, with upstream's canonical printing.
//!
//! Amounts are whole numbers of nano-units in 128 bits. A nano-unit is upstream's limit, too. Beyond 1.7e29 units, amounts
//! saturate rather than fail, so that no amount makes an object unreadable.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// How an amount is printed: as the text it was parsed from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Powers of 1000: `n u m k M G T P E`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// Powers of ten: `12e6`.
    DecimalExponent,
}

/// Equality and order compare the amount, not the format: `1Gi` equals `1073741824`.
#[derive(Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: {problem}")]
pub struct InvalidQuantity {
    text: String,
    problem: &'static str,
}

const NANOS: i128 = 1_000_000_000;
/// The largest binary amount that is parsed.
const BINARY_CAP: i128 = i64::MAX as i128 * NANOS;
pub(crate) const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
pub(crate) const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::DecimalSi };

    pub const fn new(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS, format: Format::DecimalSi }
    }

    pub const fn from_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * (NANOS / 1000), format: Format::DecimalSi }
    }

    /// The same amount, printed in another way.
    pub const fn with_format(self, format: Format) -> Self {
        Self { nanos: self.nanos, format }
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub const fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whole units, rounded away from zero, as upstream's `Value()`.
    pub fn value(&self) -> i64 {
        self.scaled(NANOS)
    }

    /// Thousandths, rounded away from zero, as upstream's `MilliValue()`.
    pub fn milli_value(&self) -> i64 {
        self.scaled(NANOS / 1000)
    }

    pub fn to_f64(&self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Whether it is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Rounds up to thousandths, the precision of resource lists.
    pub fn round_up_to_milli(self) -> Self {
        let unit = NANOS / 1000;
        let up = self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0);
        Self { nanos: up.saturating_mul(unit), format: self.format }
    }

    /// The amount times a whole number.
    pub fn scale(self, factor: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(factor)), format: self.format }
    }

    fn scaled(&self, unit: i128) -> i64 {
        let away = (self.nanos % unit).signum();
        let rounded = self.nanos / unit + away;
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// A zero gets the format of the other side, as in upstream's additions.
    fn format_with(&self, other: &Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), format: self.format_with(&other) }
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), format: self.format_with(&other) }
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), format: self.format }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// The pieces of a quantity's text: `[sign] whole [. fraction] suffix`.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Parts<'_> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    Parts { negative, whole: whole.trim_start_matches('0'), fraction, suffix }
}

/// What a suffix multiplies by.
enum Multiplier {
    Ten(i32, Format),
    Two(u32),
}

fn multiplier(suffix: &str) -> Option<Multiplier> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Some(Multiplier::Ten(*exponent, Format::DecimalSi));
    }
    if let Some((_, exponent)) = BINARY_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Some(Multiplier::Two(*exponent));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let exponent = exponent.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    Some(Multiplier::Ten(exponent, Format::DecimalExponent))
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let invalid = |problem| InvalidQuantity { text: text.chars().take(64).collect(), problem };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let Parts { negative, whole, fraction, suffix } = split(text);
        let multiplier = multiplier(suffix)
            .ok_or_else(|| invalid("after an optional sign and digits only n, u, m, k, M, G, T, P, E, Ki to Ei, or e and a power of ten may follow"))?;
        let (magnitude, mut format) = match multiplier {
            Multiplier::Ten(exponent, format) => (decimal_nanos(whole, fraction, exponent), format),
            Multiplier::Two(exponent) => {
                (binary_nanos(whole, fraction, exponent).min(BINARY_CAP), Format::BinarySi)
            }
        };
        if format == Format::BinarySi && magnitude > 0 && magnitude < NANOS {
            format = Format::DecimalSi; // less than one unit has no binary form
        }
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, format })
    }
}

/// `whole.fraction` times ten to the `exponent`, in nanos, rounded up, so that no positive amount becomes zero.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i32) -> i128 {
    // How many digits lie at or above one nano; negative when even the first is below.
    let above = whole.len() as i64 + i64::from(exponent) + 9;
    let mut nanos: i128 = 0;
    let mut below = false;
    let mut seen = 0;
    for digit in whole.bytes().chain(fraction.bytes()).map(value_of) {
        if seen < above {
            nanos = nanos.saturating_mul(10).saturating_add(digit);
        } else {
            below |= digit != 0;
        }
        seen += 1;
    }
    if nanos != 0 && seen < above {
        let power = u32::try_from(above - seen).ok().and_then(|zeros| 10i128.checked_pow(zeros));
        nanos = power.and_then(|power| nanos.checked_mul(power)).unwrap_or(i128::MAX);
    }
    nanos.saturating_add(i128::from(below))
}

/// `whole.fraction` times two to the `exponent` (at most 60), in nanos, rounded up.
fn binary_nanos(whole: &str, fraction: &str, exponent: u32) -> i128 {
    let factor = 1i128 << exponent;
    let units = number(whole).saturating_mul(factor).saturating_mul(NANOS);
    // The first nine digits of the fraction make whole nanos. Of the rest, twenty digits times `factor` fit.
    let (nine, rest) = fraction.split_at(fraction.len().min(9));
    let (twenty, beyond) = rest.split_at(rest.len().min(20));
    let coarse = number(nine) * 10i128.pow(9 - nine.len() as u32) * factor;
    let (numerator, divisor) = (number(twenty) * factor, 10i128.pow(twenty.len() as u32));
    let inexact = numerator % divisor != 0 || beyond.bytes().any(|digit| digit != b'0');
    units.saturating_add(coarse + numerator / divisor + i128::from(inexact))
}

/// A run of digits as a number.
fn number(digits: &str) -> i128 {
    digits.bytes().fold(0, |sum: i128, digit| sum.saturating_mul(10).saturating_add(value_of(digit)))
}

fn value_of(digit: u8) -> i128 {
    i128::from(digit.wrapping_sub(b'0'))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.canonical())
    }
}

impl Quantity {
    /// The largest suffix that leaves a whole number in front of it.
    fn canonical(&self) -> String {
        let small = self.nanos.unsigned_abs() < 1024 * NANOS.unsigned_abs();
        // Binary suffixes are for whole amounts of at least 1024; anything else would lose precision.
        if self.format == Format::BinarySi && !small && self.nanos % NANOS == 0 {
            return binary_text(self.nanos / NANOS);
        }
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && !(self.format != Format::DecimalExponent && exponent >= 18) {
            number /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => number.to_string(),
            (Format::DecimalExponent, _) => format!("{number}e{exponent}"),
            _ => {
                let suffix = DECIMAL_SUFFIXES
                    .iter()
                    .find(|(_, known)| *known == exponent)
                    .map_or("", |(text, _)| text);
                format!("{number}{suffix}")
            }
        }
    }
}

fn binary_text(units: i128) -> String {
    let mut number = units;
    let mut suffix = "";
    for (larger, _) in BINARY_SUFFIXES {
        if number % 1024 != 0 {
            break;
        }
        number /= 1024;
        suffix = larger;
    }
    format!("{number}{suffix}")
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::new(units))
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                self.visit_str(&units.to_string())
            }

            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                self.visit_str(&units.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

#[cfg(test)]
mod tests;
