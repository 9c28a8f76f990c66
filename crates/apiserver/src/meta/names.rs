//! Validation of names, label keys and label values, with the error messages of the real server.

use flyball_api::names::{LABEL_VALUE, QUALIFIED_NAME};

use crate::registry::NameRule;

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn lower_alnum(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.iter().all(|c| lower_alnum(*c) || *c == b'-')
        && bytes.first().is_some_and(|c| lower_alnum(*c))
        && bytes.last().is_some_and(|c| lower_alnum(*c))
}

/// Validates a DNS subdomain.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push("must be no more than 253 bytes".to_owned());
    }
    if !text.split('.').all(is_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// Validates a DNS label (RFC 1123).
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !is_label(text) {
        let dotted = text.split('.').all(is_label);
        faults.push(if dotted { "must not contain dots" } else { LABEL_1123 }.to_owned());
    }
    faults
}

/// Validates a DNS label (RFC 1035).
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

/// Validates a name that is one path segment.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => ['/', '%']
            .iter()
            .filter(|c| text.contains(**c))
            .map(|c| format!("may not contain '{c}'"))
            .collect(),
    }
}

/// Validates a label or annotation key.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            name
        }
    };
    if name.contains('/') {
        let example = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and \
            end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
            is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
            'example.com/MyName')";
        return vec![example.to_owned()];
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        faults.push(QUALIFIED_NAME.to_owned());
    }
    faults
}

/// Validates a label value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    bytes.iter().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// Validates an object's name under a rule.
pub(crate) fn check(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::Label1035 => label_1035(name),
        NameRule::PathSegment => path_segment(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rule() {
        #[rustfmt::skip]
        let table = [
            (NameRule::Subdomain, "a.b-c.9", true), (NameRule::Subdomain, "A", false), (NameRule::Subdomain, "a..b", false),
            (NameRule::Label, "9a", true), (NameRule::Label, "a.b", false), (NameRule::Label1035, "9a", false),
            (NameRule::Label1035, "a9", true), (NameRule::PathSegment, "system:node", true), (NameRule::PathSegment, "a/b", false),
            (NameRule::PathSegment, "..", false),
        ];
        for (rule, name, fine) in table {
            assert_eq!(check(rule, name).is_empty(), fine, "{rule:?} {name}");
        }
        for (key, fine) in
            [("a", true), ("x.io/a", true), ("/a", false), ("x.io/", false), ("a b", false), ("-a", false)]
        {
            assert_eq!(qualified_name(key).is_empty(), fine, "{key}");
        }
    }
}
