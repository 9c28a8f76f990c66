//! Validation of the built-in kinds, a file per family, with the error messages of the real server. `meta::validate` validates
//! metadata.

pub(super) mod access;
pub(super) mod apps;
pub(super) mod autoscaling;
pub(super) mod batch;
pub(super) mod certificates;
pub(super) mod cluster;
pub(super) mod config;
pub(super) mod events;
pub(super) mod extension;
pub(super) mod network;
pub(super) mod policy;
pub(super) mod registration;
pub(super) mod rules;
pub(super) mod selector;
pub(super) mod service;
pub(super) mod status;
pub(super) mod storage;
pub(super) mod webhooks;

use std::net::IpAddr;

use serde_json::Value;

use super::json::Json;
use crate::invalid::{Cause, Fault};
pub(super) use crate::meta::names;

pub(super) type Faults = Vec<Cause>;

/// Validates a string. Returns error messages; none if it is valid.
pub(super) type Rule = fn(&str) -> Vec<String>;

/// A value together with its path, which error messages contain.
pub(super) struct At<'v> {
    /// Null if the field is absent.
    pub(super) value: &'v Value,
    /// Such as `spec.containers[0]`.
    pub(super) path: String,
}

impl<'v> At<'v> {
    pub(super) fn root(value: &'v Value) -> Self {
        Self { value, path: String::new() }
    }

    /// A field, or with dots a field of a field.
    pub(super) fn child(&self, field: &str) -> At<'v> {
        At { value: self.value.at(field), path: self.path(field) }
    }

    /// The items of the list in a field.
    pub(super) fn items(&self, field: &str) -> impl Iterator<Item = At<'v>> + use<'v> {
        let path = self.path(field);
        let items = self.value.items(field).iter().enumerate();
        items.map(move |(at, value)| At { value, path: format!("{path}[{at}]") })
    }

    /// The entries of the map in a field.
    pub(super) fn entries(&self, field: &str) -> impl Iterator<Item = (&'v str, At<'v>)> + use<'v> {
        let path = self.path(field);
        let entries = self.value.map(field).into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), At { value, path: format!("{path}[{key}]") }))
    }

    /// The path of a field; if `field` is empty, that of this value.
    pub(super) fn path(&self, field: &str) -> String {
        match (self.path.as_str(), field) {
            (path, "") => path.to_owned(),
            ("", field) => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        }
    }

    pub(super) fn text(&self, field: &str) -> &'v str {
        self.value.text(field)
    }

    pub(super) fn int(&self, field: &str) -> Option<i64> {
        self.value.int(field)
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.value.has(field)
    }

    /// Requires a field that is not empty. Returns whether it is valid.
    pub(super) fn require(&self, faults: &mut Faults, field: &str) -> bool {
        let empty = match self.value.at(field) {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty {
            faults.push(Cause::required(self.path(field), ""));
        }
        !empty
    }

    pub(super) fn non_negative(&self, faults: &mut Faults, field: &str) {
        if let Some(number) = self.int(field).filter(|number| *number < 0) {
            faults.push(Cause::invalid(self.path(field), number, "must be greater than or equal to 0"));
        }
    }

    /// A number, if it is set, must be in a range.
    pub(super) fn between(&self, faults: &mut Faults, field: &str, low: i64, high: i64) {
        if let Some(number) = self.int(field).filter(|number| !(low..=high).contains(number)) {
            let detail = format!("must be between {low} and {high}, inclusive");
            faults.push(Cause::invalid(self.path(field), number, &detail));
        }
    }

    /// A string, if it is set, must be one of these.
    pub(super) fn one_of(&self, faults: &mut Faults, field: &str, allowed: &[&str]) {
        if let Some(text) = self.value.at(field).as_str().filter(|text| !allowed.contains(text)) {
            faults.push(Cause::not_supported(self.path(field), text, allowed));
        }
    }

    /// A string must follow a rule, also if it is empty.
    pub(super) fn must_be(&self, faults: &mut Faults, field: &str, rule: Rule) {
        let text = self.text(field);
        faults.extend(rule(text).iter().map(|detail| Cause::invalid(self.path(field), text, detail)));
    }

    /// A string is required and must follow a rule.
    pub(super) fn must_be_named(&self, faults: &mut Faults, field: &str, rule: Rule) {
        if self.require(faults, field) {
            self.must_be(faults, field, rule);
        }
    }

    /// A string, if it is not empty, must follow a rule.
    pub(super) fn may_be(&self, faults: &mut Faults, field: &str, rule: Rule) {
        if !self.text(field).is_empty() {
            self.must_be(faults, field, rule);
        }
    }

    pub(super) fn immutable(&self, faults: &mut Faults, old: &Value, field: &str) {
        if self.value.at(field) != old.at(field) {
            faults.push(Cause::invalid(self.path(field), self.value.at(field).clone(), "field is immutable"));
        }
    }

    /// Keys and values must be valid for labels.
    pub(super) fn labels(&self, faults: &mut Faults, field: &str) {
        for (key, value) in self.value.map(field).into_iter().flatten() {
            let value = value.as_str().unwrap_or("");
            let key_faults = names::qualified_name(key);
            faults.extend(
                key_faults.iter().map(|detail| Cause::invalid(self.path(field), key.as_str(), detail)),
            );
            let value_faults = names::label_value(value);
            faults.extend(value_faults.iter().map(|detail| Cause::invalid(self.path(field), value, detail)));
        }
    }

    /// A number or a percentage, at least 0 and, if it is a percentage, at most 100 %.
    pub(super) fn share(&self, faults: &mut Faults, field: &str) {
        self.positive_share(faults, field);
        if let Some(text) = self.value.at(field).as_str()
            && percent(text).is_some_and(|percent| percent > 100)
        {
            faults.push(Cause::invalid(self.path(field), text, "must not be greater than 100%"));
        }
    }

    /// A number or a percentage, at least 0.
    pub(super) fn positive_share(&self, faults: &mut Faults, field: &str) {
        match self.value.at(field) {
            Value::Number(_) => self.non_negative(faults, field),
            Value::String(text) if percent(text).is_none() => {
                faults.push(Cause::invalid(self.path(field), text.as_str(), PERCENT));
            }
            _ => {}
        }
    }

    /// An error about this value.
    pub(super) fn invalid(&self, detail: &str) -> Cause {
        Cause::invalid(self.path.clone(), self.value.clone(), detail)
    }
}

/// An error with a value that upstream prints with its fields in the order of the Go struct; our JSON is sorted by name.
pub(super) fn quoting(fault: Fault, field: String, value: &str, detail: &str) -> Cause {
    let words = match fault {
        Fault::Duplicate => "Duplicate value",
        Fault::NotSupported => "Unsupported value",
        _ => "Invalid value",
    };
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    Cause { fault, field, message: format!("{words}: {value}{detail}") }
}

/// A struct as Go prints it, with these fields in this order.
pub(super) fn go_struct(fields: &[(&str, &Value)]) -> String {
    let printed: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", printed.join(","))
}

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";

/// The number in a percentage such as `25%`.
fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Whether a number or percentage is zero.
fn is_nothing(value: &Value) -> bool {
    value == 0 || value.as_str().is_some_and(|text| percent(text) == Some(0))
}

pub(super) fn ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

pub(super) fn cidr(text: &str) -> Vec<String> {
    let well_formed = text.split_once('/').is_some_and(|(address, bits)| {
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    });
    if well_formed {
        Vec::new()
    } else {
        vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()]
    }
}

/// Why an address cannot be used: it is not valid outside of its host or link.
pub(super) fn special_ip(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>().ok()? {
        ip if ip.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        ip if ip.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        IpAddr::V4(ip) if ip.is_link_local() => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfe80 => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        IpAddr::V4(ip) if ip.octets()[..3] == [224, 0, 0] => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

/// Validates the name of a port (IANA_SVC_NAME).
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 15 {
        faults.push("must be no more than 15 bytes".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Validates a key of a ConfigMap or Secret.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push("must be no more than 253 bytes".to_owned());
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if text.is_empty() || !text.bytes().all(allowed) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Validates a domain-prefixed path, such as `acme.io/foo`.
pub(super) fn domain_path(text: &str) -> Vec<String> {
    let wrong = || vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    let Some((domain, path)) = text.split_once('/') else { return wrong() };
    if domain.is_empty() || path.is_empty() {
        return wrong();
    }
    let mut faults = names::subdomain(domain);
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/%_.~-!$&'()*+,;=:".contains(&b)) {
        faults.push(
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')".to_owned(),
        );
    }
    faults
}
