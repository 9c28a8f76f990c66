//! Text: searching, cutting, replacing, regular expressions.

use regex::{Regex, RegexBuilder};

use super::list::{list_and_element, position};
use super::{Function, int_of, overload, text_format, text_of};
use crate::error::Error;
use crate::eval::Outcome;
use crate::show;
use crate::value::Value;

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |args| two(args, |text, part| text.contains(part)),
        "startsWith" => |args| two(args, |text, part| text.starts_with(part)),
        "endsWith" => |args| two(args, |text, part| text.ends_with(part)),
        "matches" => |args| uncompiled("matches", args),
        "find" => |args| uncompiled("find", args),
        "findAll" => |args| uncompiled("findAll", args),
        "charAt" => |args| {
            let (text, at) = (text_of(args.first())?, int_of(args.get(1))?);
            let count = text.chars().count();
            match usize::try_from(at) {
                Ok(at) if at == count => Ok(Value::string("")),
                Ok(at) if at < count => Ok(Value::string(text.chars().skip(at).take(1).collect::<String>())),
                _ => Err(out_of_range(at)),
            }
        },
        "indexOf" => |args| index_of(args, false),
        "lastIndexOf" => |args| index_of(args, true),
        "lowerAscii" => |args| Ok(Value::string(text_of(args.first())?.to_ascii_lowercase())),
        "upperAscii" => |args| Ok(Value::string(text_of(args.first())?.to_ascii_uppercase())),
        "trim" => |args| Ok(Value::string(text_of(args.first())?.trim_matches(is_space))),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "jsonpatch.escapeKey" => {
            |args| Ok(Value::string(text_of(args.first())?.replace('~', "~0").replace('/', "~1")))
        }
        "strings.quote" => |args| Ok(Value::string(quote(text_of(args.first())?))),
        "format" => |args| match args {
            [Value::String(text), Value::List(values)] => {
                text_format::format(text, values).map(Value::string).map_err(Error::new)
            }
            _ => overload(),
        },
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(at: i64) -> Error {
    Error::new(format!("index out of range: {at}"))
}

fn two<'a>(args: &mut [Value<'a>], holds: fn(&str, &str) -> bool) -> Outcome<'a> {
    Ok(Value::Bool(holds(text_of(args.first())?, text_of(args.get(1))?)))
}

/// Compiles a pattern in Go's syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translated(pattern);
    RegexBuilder::new(&translated)
        .size_limit(4 << 20)
        .build()
        .map_err(|_| format!("error parsing regexp: invalid pattern: `{pattern}`"))
}

/// Translates a pattern from Go's syntax: there, `\d`, `\s`, `\w` and `\b` mean ASCII, and classes have no operators.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let (mut in_class, mut class_start) = (false, false);
    while let Some(c) = rest.next() {
        let was_start = std::mem::take(&mut class_start);
        match c {
            '\\' => match rest.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
                Some('b') if !in_class => out.push_str("(?-u:\\b)"),
                Some('B') if !in_class => out.push_str("(?-u:\\B)"),
                Some('Q') => {
                    let mut literal = String::new();
                    while let Some(c) = rest.next() {
                        if c == '\\' && rest.next_if_eq(&'E').is_some() {
                            break;
                        }
                        literal.push(c);
                    }
                    out.push_str(&regex::escape(&literal));
                }
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                (in_class, class_start) = (true, true);
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '[' if rest.peek() == Some(&':') => {
                out.push('[');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class && was_start => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && rest.peek() == Some(&'-') => out.push_str("\\-"),
            other => out.push(other),
        }
    }
    out
}

fn uncompiled<'a>(name: &str, args: &mut [Value<'a>]) -> Outcome<'a> {
    let compiled = compile(text_of(args.get(1))?).map_err(|why| match name {
        "matches" => Error::new(why),
        _ => Error::new(format!("Illegal regex: {why}")),
    })?;
    matching(name, &compiled, args)
}

/// `matches`, `find` or `findAll` with a compiled pattern.
pub(super) fn matching<'a>(name: &str, pattern: &Regex, args: &mut [Value<'a>]) -> Outcome<'a> {
    let text = text_of(args.first())?;
    match name {
        "find" => Ok(Value::string(pattern.find(text).map_or("", |found| found.as_str()))),
        "findAll" => {
            let limit = if args.len() == 3 { int_of(args.get(2))? } else { -1 };
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            Ok(Value::strings(pattern.find_iter(text).take(limit).map(|found| found.as_str())))
        }
        _ => Ok(Value::Bool(pattern.is_match(text))),
    }
}

fn index_of<'a>(args: &mut [Value<'a>], from_end: bool) -> Outcome<'a> {
    if matches!(args.first(), Some(Value::List(_))) {
        let (list, element) = list_and_element(args).ok_or_else(Error::no_such_overload)?;
        return Ok(Value::Int(position(&list, &element, from_end)));
    }
    let text: Vec<char> = text_of(args.first())?.chars().collect();
    let part: Vec<char> = text_of(args.get(1))?.chars().collect();
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let offset = if args.len() > 2 { Some(int_of(args.get(2))?) } else { None };
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(if from_end { len } else { 0 })));
    }
    if offset.is_none() && from_end && text.is_empty() {
        return Ok(Value::Int(-1));
    }
    let offset = offset.unwrap_or(if from_end { len - 1 } else { 0 });
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let start = match usize::try_from(offset) {
        Ok(start) if start < text.len() => start,
        _ => return Ok(Value::Int(-1)),
    };
    let mut places = text.windows(part.len()).enumerate();
    let found = match from_end {
        false => places.find(|(at, window)| *at >= start && *window == part.as_slice()),
        true => places.rfind(|(at, window)| *at <= start && *window == part.as_slice()),
    };
    Ok(Value::Int(found.and_then(|(at, _)| i64::try_from(at).ok()).unwrap_or(-1)))
}

fn replace<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, old, new) = (text_of(args.first())?, text_of(args.get(1))?, text_of(args.get(2))?);
    let limit = if args.len() > 3 { int_of(args.get(3))? } else { -1 };
    Ok(Value::string(match usize::try_from(limit) {
        Ok(limit) => text.replacen(old, new, limit),
        Err(_) => text.replace(old, new),
    }))
}

fn split<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, by) = (text_of(args.first())?, text_of(args.get(1))?);
    let limit = if args.len() > 2 { int_of(args.get(2))? } else { -1 };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::list(vec![]));
    }
    if !by.is_empty() {
        return Ok(Value::strings(text.splitn(limit, by)));
    }
    // An empty separator splits before each character.
    let mut parts: Vec<String> = text.chars().take(limit.saturating_sub(1)).map(String::from).collect();
    let rest: String = text.chars().skip(parts.len()).collect();
    if !rest.is_empty() {
        parts.push(rest);
    }
    Ok(Value::strings(parts))
}

fn substring<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let (text, from) = (text_of(args.first())?, int_of(args.get(1))?);
    let len = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let to = if args.len() > 2 { int_of(args.get(2))? } else { len };
    if args.len() > 2 && from > to {
        return Err(Error::new(format!("invalid substring range. start: {from}, end: {to}")));
    }
    for at in [from, to] {
        if !(0..=len).contains(&at) {
            return Err(out_of_range(at));
        }
    }
    let (from, to) = (usize::try_from(from).unwrap_or_default(), usize::try_from(to).unwrap_or_default());
    Ok(Value::string(text.chars().skip(from).take(to.saturating_sub(from)).collect::<String>()))
}

fn join<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let Some(Value::List(list)) = args.first() else { return overload() };
    let between = if args.len() > 1 { text_of(args.get(1))? } else { "" };
    let mut joined = String::new();
    for (at, element) in list.iter().enumerate() {
        let Value::String(text) = &element else {
            return Err(Error::new(format!("join: invalid input: {}", show::plain(&element))));
        };
        if at > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
