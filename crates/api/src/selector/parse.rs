//! The parser of selectors, with upstream's error texts. The grammar is a comma-separated list of
//! `key`, `!key`, `key = v`, `key == v`, `key != v`, `key < n`, `key > n`, `key in (v, …)`, `key notin (v, …)`.

use smol_str::SmolStr;

use super::{InvalidSelector, Requirement, Test, sorted};
use crate::names;

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, InvalidSelector> {
    let mut parser = Parser { rest: text };
    let mut requirements = vec![];
    let mut expected = ", expected: !, identifier, or 'end of string'";
    if parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        match parser.peek() {
            Token::Word(_) | Token::Sign("!") => requirements.push(parser.requirement()?),
            found => return Err(between(found, expected)),
        }
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => expected = ", expected: identifier after ','",
            found => return Err(between(found, ", expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or an operator such as `in`.
    Word(&'a str),
    /// `=`, `==`, `!=`, `<`, `>` or `!`.
    Sign(&'a str),
    Open,
    Close,
    Comma,
    End,
}

impl Token<'_> {
    fn text(self) -> SmolStr {
        match self {
            Token::Word(text) | Token::Sign(text) => SmolStr::new(text),
            Token::Open => "(".into(),
            Token::Close => ")".into(),
            Token::Comma => ",".into(),
            Token::End => SmolStr::default(),
        }
    }
}

/// Something is wrong between two requirements.
fn between(found: Token<'_>, expected: &'static str) -> InvalidSelector {
    InvalidSelector::Syntax { place: "", found: found.text(), expected }
}

/// Something is wrong inside a requirement.
fn within(found: Token<'_>, expected: &'static str) -> InvalidSelector {
    InvalidSelector::Syntax { place: "unable to parse requirement: ", found: found.text(), expected }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        scan(self.rest).0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = scan(self.rest);
        self.rest = rest;
        token
    }

    fn key(&mut self) -> Result<SmolStr, InvalidSelector> {
        match self.next() {
            Token::Word(key) => Ok(key.into()),
            found => Err(within(found, ", expected: identifier")),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, InvalidSelector> {
        if self.peek() == Token::Sign("!") {
            self.next();
            return Requirement::checked(self.key()?, Test::Absent);
        }
        let key = self.key()?;
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Requirement::checked(key, Test::Exists);
        }
        let test = match self.next() {
            Token::Sign("=") => Test::Is(self.value()?),
            Token::Sign("==") => Test::IsDouble(self.value()?),
            Token::Sign("!=") => Test::IsNot(self.value()?),
            Token::Sign(">") => Test::Above(self.integer(&key)?),
            Token::Sign("<") => Test::Below(self.integer(&key)?),
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            found => return Err(within(found, ", expected: in, notin, =, ==, !=, gt, lt")),
        };
        Requirement::checked(key, test)
    }

    /// An omitted value is empty.
    fn value(&mut self) -> Result<SmolStr, InvalidSelector> {
        match self.peek() {
            Token::Word(value) => {
                self.next();
                Ok(value.into())
            }
            Token::Comma | Token::End => Ok(SmolStr::default()),
            found => Err(within(found, ", expected: identifier")),
        }
    }

    fn integer(&mut self, key: &SmolStr) -> Result<i64, InvalidSelector> {
        let value = self.value()?;
        let number = value.parse().ok().filter(|_| names::is_label_value(&value));
        number.ok_or_else(|| InvalidSelector::NotAnInteger { key: key.clone(), value })
    }

    /// `(a, b)`; omitted values are empty.
    fn values(&mut self) -> Result<Box<[SmolStr]>, InvalidSelector> {
        match self.next() {
            Token::Open => {}
            found => return Err(within(found, " expected: '('")),
        }
        let mut values = vec![];
        loop {
            values.push(match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value.into()
                }
                _ => SmolStr::default(),
            });
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(sorted(values)),
                found => return Err(within(found, ", expected: ',' or ')'")),
            }
        }
    }
}

/// The next token and what follows it.
fn scan(text: &str) -> (Token<'_>, &str) {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    let Some(first) = text.chars().next() else { return (Token::End, text) };
    for sign in ["==", "!=", "=", "!", "<", ">"] {
        if let Some(rest) = text.strip_prefix(sign) {
            return (Token::Sign(sign), rest);
        }
    }
    let single = match first {
        '(' => Some(Token::Open),
        ')' => Some(Token::Close),
        ',' => Some(Token::Comma),
        _ => None,
    };
    if let Some(token) = single {
        return (token, &text[1..]);
    }
    let end = text.find([' ', '\t', '\r', '\n', '=', '!', '<', '>', '(', ')', ',']);
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    (Token::Word(word), rest)
}
