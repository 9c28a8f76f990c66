//! Orders and spellings that recordings depend on: canonical JSON text, natural order, wildcards.

use std::cmp::Ordering;

use serde_json::Value;

/// JSON with sorted keys on one line, ASCII only: the form whose order numbers the placeholders of a recording.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, None, 0);
    out
}

/// The same over several lines, one space per level: the form of a recording's file.
pub(super) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Some(1), 0);
    out
}

fn write(out: &mut String, value: &Value, indent: Option<usize>, depth: usize) {
    match value {
        Value::String(text) => quote(out, text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| (None, item)).collect();
            sequence(out, ['[', ']'], &items, indent, depth);
        }
        Value::Object(map) => {
            let mut items: Vec<_> = map.iter().map(|(key, item)| (Some(key.as_str()), item)).collect();
            items.sort_by_key(|(key, _)| *key);
            sequence(out, ['{', '}'], &items, indent, depth);
        }
        other => out.push_str(&other.to_string()),
    }
}

fn sequence(
    out: &mut String,
    [open, close]: [char; 2],
    items: &[(Option<&str>, &Value)],
    indent: Option<usize>,
    depth: usize,
) {
    let new_line = |out: &mut String, depth: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    out.push(open);
    for (index, (key, item)) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        new_line(out, depth + 1);
        if let Some(key) = key {
            quote(out, key);
            out.push_str(": ");
        }
        write(out, item, indent, depth + 1);
    }
    if !items.is_empty() {
        new_line(out, depth);
    }
    out.push(close);
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

/// A text in natural order: numbers in it compare by value, so that `web-2` comes before `web-10`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Natural(Vec<(String, Number)>);

/// Digits of any length; compared by value without a limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Number(String);

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.0.trim_start_matches('0'), other.0.trim_start_matches('0'));
        // "No number" sorts before zero.
        self.0
            .is_empty()
            .cmp(&other.0.is_empty())
            .reverse()
            .then(a.len().cmp(&b.len()))
            .then_with(|| a.cmp(b))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) fn natural(text: &str) -> Natural {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        parts.push((word.to_owned(), Number(number.to_owned())));
        rest = tail;
    }
    Natural(parts)
}

/// Whether `name` matches a shell pattern of `*` and `?`.
pub(super) fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The kind of selector that steps use: `a=b`, `a!=b`, `a`, joined by commas.
pub(super) fn matches_labels(selector: &str, labels: &Value) -> bool {
    selector.split(',').all(|part| {
        let label = |key: &str| labels[key.trim()].as_str();
        if let Some((key, value)) = part.split_once("!=") {
            label(key) != Some(value.trim())
        } else if let Some((key, value)) = part.split_once('=') {
            label(key) == Some(value.trim_start_matches('=').trim())
        } else {
            label(part).is_some()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_text_is_sorted_spaced_and_ascii() {
        let value = json!({"b": [1, true, null], "a": {"é\n": "x\"y"}, "c": {}, "d": []});
        assert_eq!(
            canonical(&value),
            r#"{"a": {"\u00e9\n": "x\"y"}, "b": [1, true, null], "c": {}, "d": []}"#
        );
        assert_eq!(pretty(&json!({"a": [1], "b": {}})), "{\n \"a\": [\n  1\n ],\n \"b\": {}\n}");
    }

    #[test]
    fn numbers_compare_by_value() {
        let mut names = ["web-10", "web-2", "web", "web-2-b", "9", "web-02x", "web-2"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["9", "web", "web-2", "web-2", "web-2-b", "web-02x", "web-10"]);
    }

    #[test]
    fn wildcards_match_anywhere() {
        #[rustfmt::skip]
        let table = [
            ("web-*", "web-abc", true), ("*", "", true), ("*-x", "a-b-x", true), ("*-x", "a-x-b", false),
            ("a?c", "abc", true), ("a?c", "ac", false), ("a*b*c", "axxbyyc", true), ("abc", "abcd", false),
        ];
        for (pattern, name, want) in table {
            assert_eq!(glob(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn label_selectors_of_steps() {
        let labels = json!({"app": "web", "tier": "1"});
        #[rustfmt::skip]
        let table = [
            ("app=web", true), ("app==web", true), ("app=db", false), ("app!=db", true), ("app!=web", false),
            ("app", true), ("other", false), ("app=web, tier=1", true), ("app=web,tier=2", false), ("other!=x", true),
        ];
        for (selector, want) in table {
            assert_eq!(matches_labels(selector, &labels), want, "{selector}");
        }
    }
}
