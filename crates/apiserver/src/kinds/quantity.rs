//! Resource quantities as the server reads and prints them, over the parser of `flyball-api`.

use std::cmp::Ordering;

/// The error for a text that is not a quantity.
pub(crate) const SYNTAX: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A quantity, with the notation in which it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity(flyball_api::Quantity);

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// Rounds up to whole milli-units, as quantities in resource lists are.
    pub(crate) fn round_up_to_milli(self) -> Self {
        Self(self.0.round_up_to_milli())
    }

    /// The sign: negative, zero or positive.
    pub(crate) fn sign(self) -> Ordering {
        self.0.cmp(&flyball_api::Quantity::ZERO)
    }

    /// Compares the amounts; `1Gi` equals `1024Mi`.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        self.0.cmp(&other.0)
    }

    /// Whether it is a whole number of units.
    pub(crate) fn is_whole(self) -> bool {
        self.0.is_whole()
    }

    /// The sum, in the notation of the first that is not zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    /// The amount as a floating-point number, for ratios.
    pub(crate) fn as_f64(self) -> f64 {
        self.0.to_f64()
    }

    /// The canonical text: no fraction, no needless digits, the largest suffix that allows it.
    pub(crate) fn canonical(self) -> String {
        self.0.to_string()
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
            ("", None), ("abc", None), ("1.2.3", None), ("1Kb", None), ("Gi", Some("0")), ("1 Gi", None), ("--1", None),
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
