//! Label and field selectors as they appear in query strings.

use smol_str::SmolStr;

use crate::store::Entry;

/// One condition on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(SmolStr, Vec<SmolStr>),
    NotIn(SmolStr, Vec<SmolStr>),
    Exists(SmolStr),
    Absent(SmolStr),
    Greater(SmolStr, i64),
    Less(SmolStr, i64),
}

/// A label selector; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads `a=b,c in (x,y),!d,e`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        let mut first = tokens.next();
        while first != Token::End {
            requirements.push(tokens.requirement(first)?);
            first = match tokens.next() {
                Token::Comma => tokens.next(),
                Token::End => Token::End,
                other => {
                    return Err(format!("found '{}', expected: ',' or 'end of string'", text_of(&other)));
                }
            };
        }
        Ok(Self(requirements))
    }

    /// Whether it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels, sorted by key, satisfy it.
    pub(crate) fn matches(&self, labels: &[(SmolStr, SmolStr)]) -> bool {
        let get = |key: &SmolStr| labels.binary_search_by(|(k, _)| k.cmp(key)).ok().map(|at| &labels[at].1);
        let number = |key: &SmolStr| get(key).and_then(|v| v.parse::<i64>().ok());
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => get(key).is_some_and(|v| values.contains(v)),
            Requirement::NotIn(key, values) => get(key).is_none_or(|v| !values.contains(v)),
            Requirement::Exists(key) => get(key).is_some(),
            Requirement::Absent(key) => get(key).is_none(),
            Requirement::Greater(key, n) => number(key).is_some_and(|v| v > *n),
            Requirement::Less(key, n) => number(key).is_some_and(|v| v < *n),
        })
    }

    /// The object form (`matchLabels`, `matchExpressions`); `None` selects nothing.
    pub(crate) fn from_object(selector: &serde_json::Value) -> Option<Self> {
        let selector = selector.as_object()?;
        let mut out = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(|m| m.as_object()).into_iter().flatten() {
            out.push(Requirement::In(key.into(), vec![value.as_str().unwrap_or_default().into()]));
        }
        for each in selector.get("matchExpressions").and_then(|m| m.as_array()).into_iter().flatten() {
            let key: SmolStr = each["key"].as_str()?.into();
            let values = each["values"].as_array().into_iter().flatten();
            let values = values.filter_map(|v| v.as_str()).map(SmolStr::from).collect();
            out.push(match each["operator"].as_str()? {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                "DoesNotExist" => Requirement::Absent(key),
                _ => return None,
            });
        }
        Some(Self(out))
    }
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Operator(&'a str),
    Bang,
    End,
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start();
        let take = |this: &mut Self, n: usize| {
            let (head, tail) = this.rest.split_at(n);
            this.rest = tail;
            head
        };
        match self.rest.as_bytes() {
            [] => Token::End,
            [b',', ..] => {
                take(self, 1);
                Token::Comma
            }
            [b'(', ..] => {
                take(self, 1);
                Token::Open
            }
            [b')', ..] => {
                take(self, 1);
                Token::Close
            }
            [b'=', b'=', ..] | [b'!', b'=', ..] => Token::Operator(take(self, 2)),
            [b'!', ..] => {
                take(self, 1);
                Token::Bang
            }
            [b'=' | b'>' | b'<', ..] => Token::Operator(take(self, 1)),
            _ => {
                let end = self.rest.find(|c: char| c.is_whitespace() || ",()=!><".contains(c));
                Token::Word(take(self, end.unwrap_or(self.rest.len())))
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn requirement(&mut self, first: Token<'a>) -> Result<Requirement, String> {
        let expected = |found: &Token<'_>, what: &str| {
            Err(format!("unable to parse requirement: found '{}', expected: {what}", text_of(found)))
        };
        let key: SmolStr = match first {
            Token::Bang => match self.next() {
                Token::Word(key) => {
                    check_key(key)?;
                    return Ok(Requirement::Absent(key.into()));
                }
                other => return expected(&other, "identifier"),
            },
            Token::Word(key) => {
                check_key(key)?;
                key.into()
            }
            other => return expected(&other, "!, identifier, or 'end of string'"),
        };
        match self.peek() {
            Token::End | Token::Comma => Ok(Requirement::Exists(key)),
            Token::Word(word @ ("in" | "notin")) => {
                self.next();
                let values = self.values()?;
                Ok(if word == "in" { Requirement::In(key, values) } else { Requirement::NotIn(key, values) })
            }
            Token::Operator(operator) => {
                self.next();
                let value = match self.peek() {
                    Token::Word(value) => {
                        self.next();
                        value
                    }
                    Token::End | Token::Comma => "",
                    other => return expected(&other, "identifier"),
                };
                check_value(&key, value)?;
                let number = || value.parse::<i64>().map_err(|_| bad_number(operator, value));
                Ok(match operator {
                    "!=" => Requirement::NotIn(key, vec![value.into()]),
                    ">" => Requirement::Greater(key, number()?),
                    "<" => Requirement::Less(key, number()?),
                    _ => Requirement::In(key, vec![value.into()]),
                })
            }
            other => expected(&other, "in, notin, =, ==, !=, gt, lt"),
        }
    }

    fn values(&mut self) -> Result<Vec<SmolStr>, String> {
        if self.next() != Token::Open {
            return Err("unable to parse requirement: found '', expected: '('".to_owned());
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(value) => values.push(value.into()),
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => {
                    let found = text_of(&other);
                    return Err(format!(
                        "unable to parse requirement: found '{found}', expected: ',', or ')'"
                    ));
                }
            }
        }
    }
}

fn text_of<'a>(token: &Token<'a>) -> &'a str {
    match token {
        Token::Word(text) | Token::Operator(text) => text,
        Token::Comma => ",",
        Token::Open => "(",
        Token::Close => ")",
        Token::Bang => "!",
        Token::End => "",
    }
}

fn bad_number(operator: &str, value: &str) -> String {
    let name = if operator == ">" { "Gt" } else { "Lt" };
    format!(
        "unable to parse requirement: values[0]: Invalid value: {value:?}: for '{name}' operator, the value must be an integer"
    )
}

fn check_key(key: &str) -> Result<(), String> {
    match crate::meta::names::qualified_name(key).first() {
        None => Ok(()),
        Some(fault) => Err(format!("unable to parse requirement: <nil>: Invalid value: {key:?}: {fault}")),
    }
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    match crate::meta::names::label_value(value).first() {
        None => Ok(()),
        Some(fault) => {
            Err(format!("unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {fault}"))
        }
    }
}

/// Where a field selector finds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Name,
    Namespace,
    Field(usize),
}

/// A field selector, resolved against the fields that a kind offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldSelector(Vec<(Place, bool, SmolStr)>);

impl FieldSelector {
    /// Reads `a=b,c!=d`; `offered` are the kind's fields besides name and namespace.
    pub(crate) fn parse(text: &str, offered: &[&str]) -> Result<Self, String> {
        let mut out = Vec::new();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (field, equal, value) = match (term.split_once("!="), term.split_once('=')) {
                (Some((field, value)), _) => (field, false, value),
                (None, Some((field, value))) => (field, true, value.strip_prefix('=').unwrap_or(value)),
                (None, None) => return Err(format!("invalid selector: '{text}'; can't understand '{term}'")),
            };
            let place = match field {
                "metadata.name" => Place::Name,
                "metadata.namespace" => Place::Namespace,
                other => match offered.iter().position(|name| *name == other) {
                    Some(at) => Place::Field(at),
                    None if offered.is_empty() => {
                        return Err(format!(
                            "{other:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                        ));
                    }
                    None => return Err(format!("field label not supported: {other}")),
                },
            };
            out.push((place, equal, SmolStr::from(value.replace('\\', ""))));
        }
        Ok(Self(out))
    }

    /// Whether it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a condition on the name.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.0.push((Place::Name, true, name.into()));
        self
    }

    /// Whether a stored object satisfies it.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        self.0.iter().all(|(place, equal, wanted)| {
            let found = match place {
                Place::Name => Some(&entry.key.name),
                Place::Namespace => Some(&entry.key.namespace),
                Place::Field(at) => entry.facets.fields.get(*at),
            };
            found.is_some_and(|found| found == wanted) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selectors_select() {
        let labels =
            [("app".into(), "web".into()), ("n".into(), "5".into()), ("tier".into(), "front".into())];
        #[rustfmt::skip]
        let table = [
            ("", true), ("app=web", true), ("app==web,tier=front", true), ("app!=web", false), ("x!=y", true),
            ("app in (db, web)", true), ("app notin (db,web)", false), ("tier", true), ("!tier", false), ("!x,app", true),
            ("n>4", true), ("n<5", false), ("app=", false),
        ];
        for (text, want) in table {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), want, "{text}");
        }
        for text in ["a===b", "=b", "a in b", "a in (x", "a b", "-bad", "a=b c"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_know_what_a_kind_offers() {
        assert_eq!(FieldSelector::parse("foo=1", &["bar"]).unwrap_err(), "field label not supported: foo");
        assert!(FieldSelector::parse("bar!=1,metadata.name=x", &["bar"]).is_ok());
        assert!(FieldSelector::parse("bar", &["bar"]).is_err());
    }
}
