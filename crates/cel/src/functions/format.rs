//! Named formats such as `dns1123Label`, and the validation of texts against them.

use base64::Engine as _;

use super::{Function, overload, text_of};
use crate::functions::url;
use crate::opaque::Opaque;
use crate::time;
use crate::value::Value;

#[derive(Debug)]
pub struct NamedFormat {
    pub(crate) name: &'static str,
    /// The length of its pattern, for costs.
    pub(crate) pattern_size: u64,
    problems: fn(&str) -> Vec<String>,
}

#[rustfmt::skip]
static FORMATS: [(&str, NamedFormat); 13] = [
    ("dns1123Label",           NamedFormat { name: "DNS1123Label",           pattern_size: 30, problems: |text| dns1123_label(text) }),
    ("dns1123Subdomain",       NamedFormat { name: "DNS1123Subdomain",       pattern_size: 60, problems: |text| dns1123_subdomain(text) }),
    ("dns1035Label",           NamedFormat { name: "DNS1035Label",           pattern_size: 30, problems: |text| dns1035_label(text) }),
    ("qualifiedName",          NamedFormat { name: "QualifiedName",          pattern_size: 60, problems: qualified_name }),
    ("dns1123LabelPrefix",     NamedFormat { name: "DNS1123LabelPrefix",     pattern_size: 30, problems: |text| dns1123_label(&unfinished(text)) }),
    ("dns1123SubdomainPrefix", NamedFormat { name: "DNS1123SubdomainPrefix", pattern_size: 60, problems: |text| dns1123_subdomain(&unfinished(text)) }),
    ("dns1035LabelPrefix",     NamedFormat { name: "DNS1035LabelPrefix",     pattern_size: 30, problems: |text| dns1035_label(&unfinished(text)) }),
    ("labelValue",             NamedFormat { name: "LabelValue",             pattern_size: 40, problems: label_value }),
    ("uri",                    NamedFormat { name: "URI",                    pattern_size: URI_SIZE, problems: |text| url::parse(text).err().into_iter().collect() }),
    ("uuid",                   NamedFormat { name: "uuid",                   pattern_size: 70, problems: |text| unless(is_uuid(text), "does not match the UUID format") }),
    ("byte",                   NamedFormat { name: "byte",                   pattern_size: 84, problems: |text| unless(is_base64(text), "invalid base64") }),
    ("date",                   NamedFormat { name: "date",                   pattern_size: DATE_TIME_SIZE, problems: |text| unless(is_date(text), "invalid date") }),
    ("datetime",               NamedFormat { name: "datetime",               pattern_size: DATE_TIME_SIZE, problems: |text| unless(is_date_time(text), "invalid datetime") }),
];

const URI_SIZE: u64 = 1103;
const DATE_TIME_SIZE: u64 = 71;

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "format.named" => |args| {
            let name = text_of(args.first())?;
            Ok(named(name).map_or(Value::Optional(None), Value::some))
        },
        "format.dns1123Label" => |_| constant("dns1123Label"),
        "format.dns1123Subdomain" => |_| constant("dns1123Subdomain"),
        "format.dns1035Label" => |_| constant("dns1035Label"),
        "format.qualifiedName" => |_| constant("qualifiedName"),
        "format.dns1123LabelPrefix" => |_| constant("dns1123LabelPrefix"),
        "format.dns1123SubdomainPrefix" => |_| constant("dns1123SubdomainPrefix"),
        "format.dns1035LabelPrefix" => |_| constant("dns1035LabelPrefix"),
        "format.labelValue" => |_| constant("labelValue"),
        "format.uri" => |_| constant("uri"),
        "format.uuid" => |_| constant("uuid"),
        "format.byte" => |_| constant("byte"),
        "format.date" => |_| constant("date"),
        "format.datetime" => |_| constant("datetime"),
        "validate" => |args| match args {
            [Value::Opaque(Opaque::Format(format)), Value::String(text)] => {
                let problems = (format.problems)(text);
                if problems.is_empty() {
                    return Ok(Value::Optional(None));
                }
                Ok(Value::some(Value::strings(problems)))
            }
            _ => overload(),
        },
        _ => return None,
    })
}

fn constant<'a>(name: &str) -> crate::eval::Outcome<'a> {
    named(name).map_or_else(overload, Ok)
}

fn named<'a>(name: &str) -> Option<Value<'a>> {
    let (_, format) = FORMATS.iter().find(|(known, _)| *known == name)?;
    Some(Value::Opaque(Opaque::Format(format)))
}

fn unless(holds: bool, problem: &str) -> Vec<String> {
    if holds { vec![] } else { vec![problem.to_owned()] }
}

/// A prefix may end in a hyphen, as more characters follow: the hyphen is replaced by an `a` before the check. Upstream:
/// api/validation, maskTrailingDash, also drops the character before the hyphen.
fn unfinished(text: &str) -> String {
    let mut before = text.strip_suffix('-').unwrap_or_default().chars();
    match before.next_back() {
        Some(_) => format!("{}a", before.as_str()),
        None => text.to_owned(),
    }
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} bytes"))
}

fn is_label(text: &str, first: fn(char) -> bool, last: fn(char) -> bool) -> bool {
    let all = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    all && text.starts_with(first) && text.ends_with(last)
}

fn is_lower_or_digit(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn dns1123_label(text: &str) -> Vec<String> {
    let too_long = (text.len() > 63).then(|| "must be no more than 63 characters".to_owned());
    let mut problems: Vec<String> = too_long.into_iter().collect();
    if !is_label(text, is_lower_or_digit, is_lower_or_digit) {
        problems.push(match dns1123_subdomain(text).is_empty() {
            true => "must not contain dots".to_owned(),
            false => "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                      and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                      '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        });
    }
    problems
}

fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(text, 253).into_iter().collect();
    if !text.split('.').all(|label| is_label(label, is_lower_or_digit, is_lower_or_digit)) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(text, 63).into_iter().collect();
    if !is_label(text, |c| c.is_ascii_lowercase(), is_lower_or_digit) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn qualified_name(text: &str) -> Vec<String> {
    let shape = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')";
    let parts: Vec<&str> = text.split('/').collect();
    let mut problems = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        ["", name] => {
            problems.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            problems.extend(
                dns1123_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")),
            );
            *name
        }
        _ => return vec![shape.to_owned()],
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if let Some(problem) = too_long(name, 63) {
        problems.push(format!("name part {problem}"));
    }
    if !is_name(name) {
        problems.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                .to_owned(),
        );
    }
    problems
}

fn label_value(text: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(text, 63).into_iter().collect();
    if !text.is_empty() && !is_name(text) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    digits.len() == 32
        && digits.chars().all(|c| c.is_ascii_hexdigit())
        && (groups == [8, 4, 4, 4, 12] || groups == [32])
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_some()
}

fn is_date_time(text: &str) -> bool {
    time::parse_timestamp(&text.replace('t', "T").replace('z', "Z")).is_some()
}

/// Whether a service account may have this name.
pub(super) fn is_subdomain(text: &str) -> bool {
    dns1123_subdomain(text).is_empty()
}

/// Whether a namespace may have this name.
pub(super) fn is_dns_label(text: &str) -> bool {
    dns1123_label(text).is_empty()
}
