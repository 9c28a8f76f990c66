//! Resource versions: integers that grow with every write and are comparable within a resource since v1.35.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A point in the history of a resource. Zero means unknown or absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(pub u64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resource version {0:?} is not a decimal number of at most 64 bits")]
pub struct InvalidResourceVersion(String);

impl ResourceVersion {
    /// True for an object that was never stored.
    pub fn is_unknown(&self) -> bool {
        self.0 == 0
    }
}

impl FromStr for ResourceVersion {
    type Err = InvalidResourceVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(0));
        }
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number.map(Self).ok_or_else(|| InvalidResourceVersion(text.chars().take(64).collect()))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = ResourceVersion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a resource version")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ResourceVersion, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decimal_numbers_are_versions() {
        assert_eq!("42".parse(), Ok(ResourceVersion(42)));
        assert_eq!("".parse(), Ok(ResourceVersion(0)));
        for bad in ["-1", "+1", "1.0", "abc", "99999999999999999999999"] {
            assert!(bad.parse::<ResourceVersion>().is_err(), "{bad}");
        }
    }
}
