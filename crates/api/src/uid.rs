//! UIDs of objects. The API server generates UUIDs, which take 16 bytes; anything else is kept as text.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use smol_str::SmolStr;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(Repr);

/// `Text` never has a canonical UUID, so that derived equality is equality of texts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Uuid([u8; 16]),
    Text(Box<str>),
}

const UUID_LENGTH: usize = 36;
/// Where a canonical UUID has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// True for an object that was never stored.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    pub fn to_smol_str(&self) -> SmolStr {
        match &self.0 {
            Repr::Uuid(bytes) => SmolStr::new(text_of(&mut [0; UUID_LENGTH], bytes)),
            Repr::Text(text) => SmolStr::new(text),
        }
    }

    /// Runs `f` on the text without allocating: for index keys and comparisons.
    pub fn with_str<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        match &self.0 {
            Repr::Uuid(bytes) => f(text_of(&mut [0; UUID_LENGTH], bytes)),
            Repr::Text(text) => f(text),
        }
    }
}

/// Writes the canonical form of a UUID into `buffer`.
fn text_of<'a>(buffer: &'a mut [u8; UUID_LENGTH], bytes: &[u8; 16]) -> &'a str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut at = 0;
    for byte in bytes {
        if HYPHENS.contains(&at) {
            buffer[at] = b'-';
            at += 1;
        }
        buffer[at] = DIGITS[usize::from(byte >> 4)];
        buffer[at + 1] = DIGITS[usize::from(byte & 0xf)];
        at += 2;
    }
    std::str::from_utf8(buffer).unwrap_or_default()
}

/// The bytes of a UUID in canonical form: lower case, hyphens in place.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; UUID_LENGTH] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (at, &c) in text.iter().enumerate() {
        if HYPHENS.contains(&at) {
            if c != b'-' {
                return None;
            }
            continue;
        }
        let value = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | value;
        digits += 1;
    }
    Some(bytes)
}

impl Default for Uid {
    fn default() -> Self {
        Self(Repr::Text(Box::default()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(parse_uuid(text).map_or_else(|| Repr::Text(text.into()), Repr::Uuid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| f.pad(text))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

/// Ordered as their texts are: upstream breaks ties by comparing UIDs as strings.
impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Uuid(a), Repr::Uuid(b)) => a.cmp(b),
            _ => self.with_str(|a| other.with_str(|b| a.cmp(b))),
        }
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_str(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Uid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UID")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Uid, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_survives() {
        for text in [
            "",
            "x",
            "7b0f3a52-93ab-4c1e-8d0f-0123456789ab",
            "7B0F3A52-93AB-4C1E-8D0F-0123456789AB",
            "7b0f3a52_93ab-4c1e-8d0f-0123456789ab",
            "7b0f3a5293ab4c1e8d0f0123456789ab",
            "éééééééééééééééééé",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
            assert_eq!(Uid::from(text).to_smol_str(), text);
        }
    }

    #[test]
    fn order_is_that_of_the_texts() {
        let texts =
            ["7b0f3a52-93ab-4c1e-8d0f-0123456789ab", "a", "7b", "", "ffffffff-93ab-4c1e-8d0f-0123456789ab"];
        for a in texts {
            for b in texts {
                assert_eq!(Uid::from(a).cmp(&Uid::from(b)), a.cmp(b), "{a} {b}");
            }
        }
    }
}
