//! Values that are written as texts, such as addresses. Errors name the line of the value and show what would be right.

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// A `T` in a [`ConfigFile`](super::ConfigFile).
///
/// An error of `deserialize_with` or `try_from` would have the line of the mapping that the value is in; only an error of a
/// visitor has that of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written<T>(pub T);

/// What the text of a value should look like.
pub trait Form: FromStr {
    /// As in `an address such as 10.0.0.1`.
    const EXAMPLE: &'static str;
}

impl Form for IpAddr {
    const EXAMPLE: &'static str = "an address such as 10.0.0.1 or fd00::1";
}

impl Form for IpNet {
    const EXAMPLE: &'static str = "a range such as 192.0.2.0/24 or 2001:db8::/64";
}

/// The address of an HTTP API: a scheme and a host, perhaps with a port, and no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAddress(pub String);

impl FromStr for ApiAddress {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let is_host = host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']));
        is_host.then(|| Self(text.to_owned())).ok_or(())
    }
}

impl Form for ApiAddress {
    const EXAMPLE: &'static str =
        "the address of an API such as https://10.0.1.11 or https://api.example.com:8443";
}

impl<'de, T: Form> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Text(PhantomData))
    }
}

struct Text<T>(PhantomData<T>);

impl<T: Form> Visitor<'_> for Text<T> {
    type Value = Written<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXAMPLE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(Written).map_err(|_| E::custom(format!("{text:?} is not {}", T::EXAMPLE)))
    }
}
