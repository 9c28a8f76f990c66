//! URLs, as Go's `url.ParseRequestURI` reads them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Function, overload, text_of};
use crate::error::Error;
use crate::eval::Outcome;
use crate::go::quoted;
use crate::map::{Key, Map};
use crate::opaque::Opaque;
use crate::value::Value;

/// The parts of a URL.
#[derive(Debug, Clone, Default)]
pub struct Url {
    scheme: String,
    /// The text after the colon of a URL without a path, such as `mailto:x`.
    opaque: String,
    user: Option<String>,
    host: String,
    path: String,
    query: Option<String>,
    fragment: Option<String>,
    has_authority: bool,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        f.write_str(&self.opaque)?;
        if self.has_authority && !(self.host.is_empty() && self.path.is_empty() && self.user.is_none()) {
            f.write_str("//")?;
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            f.write_str(&self.host)?;
        }
        f.write_str(&self.escaped_path())?;
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if let Some(fragment) = &self.fragment {
            write!(f, "#{fragment}")?;
        }
        Ok(())
    }
}

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |args| {
            let parsed = parse(text_of(args.first())?);
            let failed =
                |why: String| Error::new(format!("URL parse error during conversion from string: {why}"));
            parsed.map(|url| Value::Opaque(Opaque::Url(Arc::new(url)))).map_err(failed)
        },
        "isURL" => |args| Ok(Value::Bool(parse(text_of(args.first())?).is_ok())),
        "getScheme" => |args| part(args, |url| url.scheme.clone()),
        "getHost" => |args| part(args, |url| url.host.clone()),
        "getHostname" => |args| part(args, Url::hostname),
        "getPort" => |args| part(args, Url::port),
        "getEscapedPath" => |args| part(args, Url::escaped_path),
        "getQuery" => |args| match args {
            [Value::Opaque(Opaque::Url(url))] => Ok(url.query()),
            _ => overload(),
        },
        _ => return None,
    })
}

fn part<'a>(args: &mut [Value<'a>], of: fn(&Url) -> String) -> Outcome<'a> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(Value::string(of(url))),
        _ => overload(),
    }
}

impl Url {
    fn port_at(&self) -> Option<usize> {
        let colon = self.host.rfind(':')?;
        let is_port = self.host[colon + 1..].chars().all(|c| c.is_ascii_digit());
        let is_in_brackets = self.host.rfind(']').is_some_and(|bracket| bracket > colon);
        (is_port && !is_in_brackets).then_some(colon)
    }

    fn hostname(&self) -> String {
        let host = self.port_at().map_or(self.host.as_str(), |colon| &self.host[..colon]);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned()
    }

    fn port(&self) -> String {
        self.port_at().map_or(String::new(), |colon| self.host[colon + 1..].to_owned())
    }

    /// The path as it was given, if it is a valid encoding; otherwise escaped.
    fn escaped_path(&self) -> String {
        let may_stay = |c: char| c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:@[]/%".contains(c);
        if self.path.chars().all(may_stay) {
            return self.path.clone();
        }
        let mut escaped = String::with_capacity(self.path.len());
        for byte in unescaped(&self.path, false).unwrap_or_default() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => escaped.push(char::from(byte)),
                byte if b"-_.~$&+,/:;=@".contains(&byte) => escaped.push(char::from(byte)),
                byte => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        escaped
    }

    fn query<'a>(&self) -> Value<'a> {
        let mut found: BTreeMap<Key, Vec<Value<'a>>> = BTreeMap::new();
        for pair in self.query.as_deref().unwrap_or_default().split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let text = |text| unescaped(text, true).and_then(|bytes| String::from_utf8(bytes).ok());
            if let (Some(key), Some(value)) = (text(key), text(value)) {
                found.entry(Key::String(key.into())).or_default().push(Value::string(value));
            }
        }
        Value::Map(Map::made(found.into_iter().map(|(key, values)| (key, Value::list(values))).collect()))
    }
}

fn unescaped(text: &str, is_query: bool) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                plain.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if is_query => plain.push(b' '),
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Reads an absolute URL or path; the error is Go's.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let refuse = |why: String| Err(format!("parse {}: {why}", quoted(text)));
    if text.chars().any(|c| (c as u32) < 0x20 || c as u32 == 0x7f) {
        return refuse("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return refuse("empty url".to_owned());
    }
    let (scheme, rest) = match scheme(text) {
        Ok(split) => split,
        Err(why) => return refuse(why),
    };
    if !rest.starts_with('/') {
        return match scheme.is_empty() {
            true => refuse("invalid URI for request".to_owned()),
            false => Ok(Url { scheme, opaque: rest.to_owned(), ..Url::default() }),
        };
    }
    let (rest, fragment) =
        rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) =
        match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
            Some(after) => after.find('/').map_or((Some(after), ""), |at| (Some(&after[..at]), &after[at..])),
            None => (None, rest),
        };
    let (user, host) = authority
        .unwrap_or_default()
        .rsplit_once('@')
        .map_or((None, authority.unwrap_or_default()), |(user, host)| (Some(user), host));
    if let Err(why) = check_host(host) {
        return refuse(why);
    }
    if let Some(why) = bad_escape(path) {
        return refuse(why);
    }
    Ok(Url {
        scheme,
        opaque: String::new(),
        user: user.map(str::to_owned),
        host: host.to_owned(),
        path: path.to_owned(),
        query: query.map(str::to_owned),
        fragment: fragment.map(str::to_owned),
        has_authority: authority.is_some(),
    })
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok((String::new(), text)),
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => return Ok((String::new(), text)),
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    if host.starts_with('[') {
        let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
        return check_port(&host[end + 1..]);
    }
    if let Some(at) = host.rfind(':') {
        check_port(&host[at..])?;
    }
    if let Some(why) = bad_escape(host) {
        return Err(why);
    }
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !is_allowed(*c)) {
        Some(c) => Err(format!("invalid character {} in host name", quoted(&c.to_string()))),
        None => Ok(()),
    }
}

fn check_port(text: &str) -> Result<(), String> {
    let is_port = text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
    if is_port { Ok(()) } else { Err(format!("invalid port {} after host", quoted(text))) }
}

fn bad_escape(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let escape = rest[at..].chars().take(3).collect::<String>();
        let is_good = escape.len() == 3 && escape.chars().skip(1).all(|c| c.is_ascii_hexdigit());
        if !is_good {
            return Some(format!("invalid URL escape {}", quoted(&escape)));
        }
        rest = &rest[at + 1..];
    }
    None
}
