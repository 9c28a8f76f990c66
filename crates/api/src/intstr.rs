//! Values that are a number or a percentage, such as `maxUnavailable: 25%`, and ports that are a number or a name.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use smol_str::SmolStr;

/// A number, or a text whose meaning depends on the field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IntOrString {
    Int(i32),
    /// A percentage or a name.
    Text(SmolStr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the next larger number.
    Up,
    /// To the next smaller number.
    Down,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number nor a percentage such as \"25%\"")]
pub struct InvalidPercentage(SmolStr);

impl IntOrString {
    /// The number itself, or that percentage of `total`.
    pub fn resolve(&self, total: i64, rounding: Rounding) -> Result<i64, InvalidPercentage> {
        let percent = match self {
            IntOrString::Int(number) => return Ok(i64::from(*number)),
            IntOrString::Text(text) => percent(text).ok_or_else(|| InvalidPercentage(text.clone()))?,
        };
        let hundredths = i128::from(percent) * i128::from(total);
        let part = match rounding {
            Rounding::Down => hundredths.div_euclid(100),
            Rounding::Up => -(-hundredths).div_euclid(100),
        };
        Ok(part.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok()
}

impl Default for IntOrString {
    fn default() -> Self {
        IntOrString::Int(0)
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        IntOrString::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        IntOrString::Text(text.into())
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => number.fmt(f),
            IntOrString::Text(text) => f.pad(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            IntOrString::Int(number) => serializer.serialize_i32(*number),
            IntOrString::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = IntOrString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 32-bit number or a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<IntOrString, E> {
                Ok(text.into())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<IntOrString, E> {
                i32::try_from(number).map(IntOrString::Int).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<IntOrString, E> {
                i32::try_from(number).map(IntOrString::Int).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentages_are_rounded_up_or_down() {
        #[rustfmt::skip]
        let table = [
            // value                      total  up  down
            (IntOrString::from(3),        10,    3,  3),
            (IntOrString::from("25%"),    10,    3,  2),
            (IntOrString::from("25%"),    4,     1,  1),
            (IntOrString::from("0%"),     10,    0,  0),
            (IntOrString::from("1%"),     1,     1,  0),
            (IntOrString::from("100%"),   7,     7,  7),
            (IntOrString::from("150%"),   3,     5,  4),
            (IntOrString::from("-25%"),   10,   -2, -3),
        ];
        for (value, total, up, down) in table {
            assert_eq!(value.resolve(total, Rounding::Up), Ok(up), "{value}");
            assert_eq!(value.resolve(total, Rounding::Down), Ok(down), "{value}");
        }
    }

    #[test]
    fn other_texts_are_no_amounts() {
        for text in ["", "%", "5", "5 %", "5%%", "x%", "1.5%"] {
            assert!(IntOrString::from(text).resolve(10, Rounding::Up).is_err(), "{text}");
        }
    }

    #[test]
    fn json_keeps_numbers_and_texts_apart() {
        for json in ["5", "\"5\"", "\"25%\"", "-1"] {
            let value: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
        assert!(serde_json::from_str::<IntOrString>("99999999999").is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,12}|-?[0-9]{0,25}%", total in any::<i64>()) {
            let value = IntOrString::from(text.as_str());
            let _ = (value.resolve(total, Rounding::Up), value.resolve(total, Rounding::Down));
        }
    }
}
