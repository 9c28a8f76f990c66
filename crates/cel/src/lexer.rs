//! Splits text into tokens. The longest match wins; white space and comments are dropped.

use crate::source::{Problem, Source};

/// A token; `from` and `to` are positions of characters, `to` is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Symbol(&'static str),
    In,
    True,
    False,
    Null,
    Identifier,
    EscapedIdentifier,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// All tokens, with [`TokenKind::End`] at the end. Fails at the first character that begins no token.
pub(crate) fn tokens(source: &Source) -> Result<Vec<Token>, Problem> {
    let mut lexer = Lexer { text: &source.characters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let from = lexer.at;
        let kind = lexer.next(source)?;
        tokens.push(Token { kind, from, to: lexer.at });
        if kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                Some('\t' | ' ' | '\r' | '\n' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => self.skip_while(|c| c != '\n'),
                _ => return,
            }
        }
    }

    fn skip_while(&mut self, mut wanted: impl FnMut(char) -> bool) {
        while self.peek(0).is_some_and(&mut wanted) {
            self.at += 1;
        }
    }

    fn next(&mut self, source: &Source) -> Result<TokenKind, Problem> {
        let from = self.at;
        let Some(first) = self.peek(0) else { return Ok(TokenKind::End) };
        if let Some(kind) = self.string() {
            return Ok(kind);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Ok(self.number());
        }
        if first.is_ascii_alphabetic() || first == '_' {
            self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return Ok(match source.text(from, self.at).as_str() {
                "in" => TokenKind::In,
                "true" => TokenKind::True,
                "false" => TokenKind::False,
                "null" => TokenKind::Null,
                _ => TokenKind::Identifier,
            });
        }
        if first == '`' {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
            if self.peek(0) == Some('`') && self.at > from + 1 {
                self.at += 1;
                return Ok(TokenKind::EscapedIdentifier);
            }
        }
        let symbol = SYMBOLS.iter().find(|symbol| {
            symbol.chars().enumerate().all(|(ahead, c)| self.text.get(from + ahead) == Some(&c))
        });
        match symbol {
            Some(symbol) => {
                self.at = from + symbol.len();
                Ok(TokenKind::Symbol(symbol))
            }
            None => {
                let text = source.text(from, self.at.max(from + 1));
                Err(Problem::new(from, format!("Syntax error: token recognition error at: '{text}'")))
            }
        }
    }

    fn number(&mut self) -> TokenKind {
        let is_hex = self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit());
        if is_hex {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
        } else {
            self.skip_while(|c| c.is_ascii_digit());
            let mut is_float = false;
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
                is_float = true;
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit());
            }
            if matches!(self.peek(0), Some('e' | 'E')) {
                let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
                if self.peek(1 + signed).is_some_and(|c| c.is_ascii_digit()) {
                    is_float = true;
                    self.at += 1 + signed;
                    self.skip_while(|c| c.is_ascii_digit());
                }
            }
            if is_float {
                return TokenKind::Float;
            }
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return TokenKind::Uint;
        }
        TokenKind::Int
    }

    /// A complete string or bytes literal, if one begins here.
    fn string(&mut self) -> Option<TokenKind> {
        let (mut ahead, mut is_bytes, mut is_raw) = (0, false, false);
        if matches!(self.peek(ahead), Some('b' | 'B')) {
            (ahead, is_bytes) = (ahead + 1, true);
        }
        if matches!(self.peek(ahead), Some('r' | 'R')) {
            (ahead, is_raw) = (ahead + 1, true);
        }
        let quote = self.peek(ahead).filter(|c| matches!(c, '"' | '\''))?;
        let is_triple = (1..3).all(|more| self.peek(ahead + more) == Some(quote));
        let end = if is_triple { self.closing(ahead + 3, quote, 3, is_raw) } else { None };
        let end = end.or_else(|| self.closing(ahead + 1, quote, 1, is_raw))?;
        self.at += end;
        Some(if is_bytes { TokenKind::Bytes } else { TokenKind::String })
    }

    /// The distance to the end of a literal whose text begins `ahead` characters from here, including its closing quotes.
    fn closing(&self, mut ahead: usize, quote: char, quotes: usize, is_raw: bool) -> Option<usize> {
        loop {
            if (0..quotes).all(|more| self.peek(ahead + more) == Some(quote)) {
                return Some(ahead + quotes);
            }
            match self.peek(ahead)? {
                '\n' | '\r' if quotes == 1 => return None,
                '\\' if !is_raw => ahead += 1 + self.escape(ahead + 1)?,
                _ => ahead += 1,
            }
        }
    }

    /// The length of an escape sequence without its backslash; `None` if it is invalid.
    fn escape(&self, ahead: usize) -> Option<usize> {
        let digits = |count: usize, radix: u32| {
            (1..=count)
                .all(|more| self.peek(ahead + more).is_some_and(|c| c.is_digit(radix)))
                .then_some(count + 1)
        };
        match self.peek(ahead)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(1),
            'x' | 'X' => digits(2, 16),
            'u' => digits(4, 16),
            'U' => digits(8, 16),
            '0'..='3' => digits(2, 8),
            _ => None,
        }
    }
}
