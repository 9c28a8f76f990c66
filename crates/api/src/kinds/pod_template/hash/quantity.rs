//! How Go's `resource.Quantity` looks in a dump: its private fields, which depend on the text that it was read from.
//!
//! A quantity that fits is a 64-bit number with a decimal scale, and keeps its text if that needs no rewriting. Any other is an
//! arbitrary-precision decimal of nano-units. Quantities come from the server, which has rewritten those of the second kind:
//! they have no fraction, and there is nothing to round.

use std::borrow::Cow;

use super::Out;
use crate::quantity::{BINARY_SUFFIXES, DECIMAL_SUFFIXES};

const NANO: i32 = -9;

struct Parsed<'a> {
    is_negative: bool,
    /// The digits without the point, and without zeros before the first of them.
    digits: Cow<'a, str>,
    /// How many of the digits come after the point.
    fraction: i32,
    exponent: i32,
    format: &'static str,
}

/// Prints the fields of the quantity with this text.
pub(super) fn dump(text: &str, out: Out<'_>) {
    let (amount, decimal, kept, format) = match text {
        // No quantity, which the server would not have accepted: Go's zero value.
        "" => (Some((0, 0)), String::new(), "", ""),
        "0" => (Some((0, 0)), String::new(), text, "DecimalSI"),
        _ => {
            let parsed = parse(text);
            let format = parsed.format;
            match small(&parsed) {
                Some((value, scale, is_canonical)) => {
                    (Some((value, scale)), String::new(), if is_canonical { text } else { "" }, format)
                }
                None => (None, large(&parsed), "", format),
            }
        }
    };
    let (value, scale) = amount.unwrap_or_default();
    let decimal = if amount.is_some() { "<nil>" } else { &decimal };
    out(&format!(
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec){decimal}}} s:(string){kept} Format:(resource.Format){format}}}"
    ));
}

fn parse(text: &str) -> Parsed<'_> {
    let is_negative = text.starts_with('-');
    let unsigned = text.trim_start_matches(['-', '+']).trim_start_matches('0');
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (digits, fraction) = match number.split_once('.') {
        None if number.is_empty() => ("0".into(), 0),
        None => (number.into(), 0),
        Some((whole, fraction)) => {
            let whole = if whole.is_empty() { "0" } else { whole };
            (format!("{whole}{fraction}").into(), i32::try_from(fraction.len()).unwrap_or(i32::MAX))
        }
    };
    let decimal = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix);
    let binary = BINARY_SUFFIXES.iter().find(|(known, _)| *known == suffix);
    let (exponent, format) = match (decimal, binary) {
        (Some((_, exponent)), _) => (*exponent, "DecimalSI"),
        (_, Some((_, exponent))) => (exponent.cast_signed(), "BinarySI"),
        _ => (suffix.get(1..).and_then(|n| n.parse().ok()).unwrap_or_default(), "DecimalExponent"),
    };
    Parsed { is_negative, digits, fraction, exponent, format }
}

/// Value, scale, and whether the text is kept; `None` for amounts that upstream does not try to fit into 64 bits.
fn small(parsed: &Parsed<'_>) -> Option<(i64, i32, bool)> {
    let Parsed { is_negative, ref digits, fraction, exponent, format } = *parsed;
    let length = i32::try_from(digits.len()).ok()?;
    let is_binary = format == "BinarySI";
    let (room, scale) = match is_binary {
        // Upstream: exponent * 3 / 10, rounded down, estimates the decimal digits of the factor.
        true => (15 - length - exponent * 3 / 10 - 1, 0),
        false => (18 - length, exponent - fraction),
    };
    if room < 0 || scale < NANO || (is_binary && fraction > 0) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    let (value, is_canonical) = match is_binary {
        true => (number.checked_mul(1 << exponent)?, number & 7 != 0),
        false => (number, scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')),
    };
    Some((if is_negative { -value } else { value }, scale, is_canonical))
}

/// The decimal of nano-units.
fn large(parsed: &Parsed<'_>) -> String {
    let Parsed { is_negative, ref digits, fraction, exponent, format } = *parsed;
    let mut words = digits
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(Words::default(), |words, digit| words.times_plus(10, u64::from(digit - b'0')));
    let mut scale = 9;
    if format == "BinarySI" {
        words = (0..exponent).fold(words, |words, _| words.times_plus(2, 0));
        if words.exceeds_i64() {
            (words, scale) = (Words(vec![i64::MAX.cast_unsigned()]), 0);
        }
    }
    let zeros = scale - fraction + if format == "BinarySI" { 0 } else { exponent };
    let words = (0..zeros).fold(words, |words, _| words.times_plus(10, 0));
    let words: Vec<_> = words.0.iter().map(u64::to_string).collect();
    format!(
        "{{unscaled:(big.Int){{neg:(bool){is_negative} abs:(big.nat)[{}]}} scale:(inf.Scale){scale}}}",
        words.join(" ")
    )
}

/// A number of any size, in words of 64 bits, the lowest first.
#[derive(Default)]
struct Words(Vec<u64>);

impl Words {
    fn times_plus(mut self, factor: u64, add: u64) -> Self {
        let mut carry = u128::from(add);
        for word in &mut self.0 {
            let product = u128::from(*word) * u128::from(factor) + carry;
            // The low word stays, the high word is carried.
            (*word, carry) = (product as u64, product >> 64);
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
        self
    }

    fn exceeds_i64(&self) -> bool {
        self.0.len() > 1 || self.0.first().is_some_and(|word| i64::try_from(*word).is_err())
    }
}
