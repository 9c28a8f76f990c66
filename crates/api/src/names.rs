//! Validation of names: label keys and values, DNS labels and subdomains.

/// Upstream's text about a qualified name that is none.
pub const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// Upstream's text about a label value that is none.
pub const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The longest a label value, or the name part of a label key, may be.
const LABEL_LENGTH: usize = 63;
/// The longest a DNS subdomain may be.
const SUBDOMAIN_LENGTH: usize = 253;

/// Whether it is a DNS label: lower-case letters, digits and inner hyphens, at most 63 characters.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_LENGTH && is_dns_part(text)
}

/// Whether it is a DNS subdomain: labels joined by dots, at most 253 characters in all.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_LENGTH && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether it can be the key of a label or annotation: `name` or `domain/name`.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && !name.is_empty() && is_label_value(name),
        None => !text.is_empty() && is_label_value(text),
    }
}

/// Whether it can be the value of a label: empty, or letters, digits and inner `-_.`, at most 63 characters.
pub fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_LENGTH
        && bytes.iter().copied().all(inner)
        && ends(bytes.first())
        && ends(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        #[rustfmt::skip]
        let table = [
            // text               dns label  subdomain  qualified  value
            ("a",                  true,      true,      true,      true),
            ("a-b1",               true,      true,      true,      true),
            ("a.b",                false,     true,      true,      true),
            ("A_b",                false,     false,     true,      true),
            ("example.com/a.B_c",  false,     false,     true,      false),
            ("Example.com/a",      false,     false,     false,     false),
            ("/a",                 false,     false,     false,     false),
            ("a/",                 false,     false,     false,     false),
            ("a/b/c",              false,     false,     false,     false),
            ("-a",                 false,     false,     false,     false),
            ("a-",                 false,     false,     false,     false),
            ("a b",                false,     false,     false,     false),
            ("é",                  false,     false,     false,     false),
            ("",                   false,     false,     false,     true),
        ];
        for (text, label, subdomain, qualified, value) in table {
            let got =
                (is_dns_label(text), is_dns_subdomain(text), is_qualified_name(text), is_label_value(text));
            assert_eq!(got, (label, subdomain, qualified, value), "{text:?}");
        }
        let long = "a".repeat(64);
        assert!(
            !is_dns_label(&long)
                && !is_label_value(&long)
                && !is_qualified_name(&long)
                && is_dns_subdomain(&long)
        );
    }
}
