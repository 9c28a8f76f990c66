//! Field selectors: `metadata.name=a,spec.nodeName!=b`, with `\` before `,`, `=` and `\` in values.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

/// A list of comparisons, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: SmolStr,
    equal: bool,
    value: SmolStr,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "field selector term {term:?} is not of the form field=value or field!=value, with \\ before , = and \\ in the value"
)]
pub struct InvalidFieldSelector {
    pub term: String,
}

impl FieldSelector {
    pub fn equals(field: &str, value: &str) -> Self {
        Self::default().and_equals(field, value)
    }

    pub fn and_equals(mut self, field: &str, value: &str) -> Self {
        self.0.push(Term { field: field.into(), equal: true, value: value.into() });
        self
    }

    #[cfg(test)]
    pub(crate) fn and_not_equals(mut self, field: &str, value: &str) -> Self {
        self.0.push(Term { field: field.into(), equal: false, value: value.into() });
        self
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value that `field` must be equal to, if the selector has such a term.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// The terms: field, whether it must be equal, and the value.
    pub fn terms(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        self.0.iter().map(|term| (term.field.as_str(), term.equal, term.value.as_str()))
    }

    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.field.as_str())
    }

    /// Whether an object matches. `field` returns the value of a field, empty if it is absent.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> &'a str) -> bool {
        self.0.iter().all(|term| (field(&term.field) == term.value) == term.equal)
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidFieldSelector;

    fn from_str(text: &str) -> Result<Self, InvalidFieldSelector> {
        let terms = split_unescaped(text).filter(|term| !term.is_empty());
        terms
            .map(|term| Term::parse(term).ok_or_else(|| InvalidFieldSelector { term: term.into() }))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let sign = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{sign}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// The parts between commas that no backslash precedes.
fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c: char| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
}

impl Term {
    fn parse(term: &str) -> Option<Self> {
        let at = term.find('=')?;
        let (left, right) = term.split_at(at);
        let (field, equal) = match left.strip_suffix('!') {
            Some(field) => (field, false),
            None => (left, true),
        };
        let right = &right[1..];
        let value = if equal { right.strip_prefix('=').unwrap_or(right) } else { right };
        let whole = !field.is_empty() && !field.contains('\\');
        whole.then(|| Some(Self { field: field.into(), equal, value: unescape(value)? }))?
    }
}

fn unescape(value: &str) -> Option<SmolStr> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.push(chars.next().filter(|next| matches!(next, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            _ => plain.push(c),
        }
    }
    Some(plain.into())
}
