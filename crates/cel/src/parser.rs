//! Parses tokens into a tree. The position of a node is the character at which cel-go reports problems with it: the bracket of a
//! call, the sign of an operator, the dot of a selection. Parsing ends at the first syntax error.

use smol_str::SmolStr;

use crate::ast::{Element, Entry, Expr, Field, Kind, Literal};
use crate::lexer::{Token, TokenKind, tokens};
use crate::source::{Problem, Source};
use crate::{literal, macros};

/// The limit on nesting.
const DEEPEST: usize = 250;

/// The limit on the length of expressions, in characters.
const LONGEST: usize = 100_000;

/// Words that are not valid as names of variables.
pub(crate) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The tokens that may begin an expression, as ANTLR lists them in errors.
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                       BYTES, IDENTIFIER}";

pub(crate) fn parse(source: &Source) -> Result<Expr, Problem> {
    let size = source.characters.len();
    if size > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(Problem::whole(message));
    }
    let mut parser = Parser { source, tokens: tokens(source)?, next: 0, nested: 0 };
    let (expr, _) = parser.expr()?;
    match parser.peek().kind {
        TokenKind::End => Ok(expr),
        _ => Err(parser.unexpected("extraneous input", "<EOF>")),
    }
}

/// A node, and the depth of the tree below it.
type Node = (Expr, usize);

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Token>,
    next: usize,
    nested: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Token {
        let last = Token {
            kind: TokenKind::End,
            from: self.source.characters.len(),
            to: self.source.characters.len(),
        };
        self.tokens.get(self.next).copied().unwrap_or(last)
    }

    fn is_next(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(next) if next == symbol)
    }

    /// Takes the next token if it is this one.
    fn take(&mut self, symbol: &str) -> Option<Token> {
        self.is_next(symbol).then(|| self.advance())
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn expect(&mut self, symbol: &str) -> Result<Token, Problem> {
        self.take(symbol).ok_or_else(|| self.unexpected("mismatched input", &format!("'{symbol}'")))
    }

    fn unexpected(&self, problem: &str, expected: &str) -> Problem {
        let token = self.peek();
        let text = match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => self.text(token),
        };
        Problem::new(token.from, format!("Syntax error: {problem} '{text}' expecting {expected}"))
    }

    fn text(&self, token: Token) -> String {
        self.source.text(token.from, token.to)
    }

    fn expr(&mut self) -> Result<Node, Problem> {
        self.nested += 1;
        if self.nested > DEEPEST {
            return Err(Problem::whole(format!("expression recursion limit exceeded: {DEEPEST}")));
        }
        let node = self.conditional();
        self.nested -= 1;
        node
    }

    fn conditional(&mut self) -> Result<Node, Problem> {
        let (test, deep) = self.logical("||", "_||_", |parser| {
            parser.logical("&&", "_&&_", |parser| parser.binary(Level::Relation))
        })?;
        let Some(op) = self.take("?") else { return Ok((test, deep)) };
        let (yes, deep_yes) = self.logical("||", "_||_", |parser| {
            parser.logical("&&", "_&&_", |parser| parser.binary(Level::Relation))
        })?;
        self.expect(":")?;
        let (no, deep_no) = self.expr()?;
        deepened(Expr::call(op.from, "_?_:_", vec![test, yes, no]), deep.max(deep_yes).max(deep_no))
    }

    /// Terms joined by a logical operator, as a balanced tree: long chains do not count as deep nesting.
    fn logical(
        &mut self,
        symbol: &str,
        function: &'static str,
        mut term: impl FnMut(&mut Self) -> Result<Node, Problem>,
    ) -> Result<Node, Problem> {
        let (first, mut deep) = term(self)?;
        let (mut terms, mut ops) = (vec![first], vec![]);
        while let Some(op) = self.take(symbol) {
            let (next, deep_next) = term(self)?;
            terms.push(next);
            ops.push(op.from);
            deep = deep.max(deep_next);
        }
        let joined = balanced(function, &ops, &mut terms.into_iter());
        joined.map(|joined| (joined, deep)).ok_or_else(|| self.unexpected("mismatched input", OPERAND))
    }

    /// Left-associative operators.
    fn binary(&mut self, level: Level) -> Result<Node, Problem> {
        let (mut left, mut deep) = self.operand(level)?;
        while let Some(function) = level.function(self.peek().kind) {
            let op = self.advance();
            let (right, deep_right) = self.operand(level)?;
            (left, deep) = deepened(Expr::call(op.from, function, vec![left, right]), deep.max(deep_right))?;
        }
        Ok((left, deep))
    }

    fn operand(&mut self, level: Level) -> Result<Node, Problem> {
        match level {
            Level::Relation => self.binary(Level::Sum),
            Level::Sum => self.binary(Level::Product),
            Level::Product => self.unary(),
        }
    }

    fn unary(&mut self) -> Result<Node, Problem> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let Some(first) = self.take(symbol) else { continue };
            // A sign belongs to the number that follows it.
            let is_number = matches!(self.peek().kind, TokenKind::Int | TokenKind::Float);
            if symbol == "-" && is_number {
                let number = self.number(first.from, true)?;
                return self.member((number, 0));
            }
            let mut signs = 1;
            while self.take(symbol).is_some() {
                signs += 1;
            }
            let primary = self.primary()?;
            let (operand, deep) = self.member(primary)?;
            return Ok(match signs % 2 {
                0 => (operand, deep),
                _ => (Expr::call(first.from, function, vec![operand]), deep),
            });
        }
        let primary = self.primary()?;
        self.member(primary)
    }

    /// Selections, calls and indexes that follow an operand.
    fn member(&mut self, (mut operand, mut deep): Node) -> Result<Node, Problem> {
        loop {
            let (next, deep_args) = if let Some(op) = self.take("[") {
                let function = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
                let (index, deep_index) = self.expr()?;
                self.expect("]")?;
                (Expr::call(op.from, function, vec![operand, index]), deep_index)
            } else if let Some(dot) = self.take(".") {
                self.selection(operand, dot)?
            } else {
                return Ok((operand, deep));
            };
            (operand, deep) = deepened(next, deep.max(deep_args))?;
        }
    }

    fn selection(&mut self, operand: Expr, dot: Token) -> Result<Node, Problem> {
        let is_optional = self.take("?").is_some();
        let name = self.field_name()?;
        let field = SmolStr::from(self.text(name));
        if is_optional {
            let field = Expr::literal(name.from, Literal::String(field));
            return Ok((Expr::call(dot.from, "_?._", vec![operand, field]), 0));
        }
        match self.take("(") {
            Some(open) => {
                let (args, deep) = self.arguments()?;
                Ok((macros::member(open.from, field, operand, args)?, deep))
            }
            None => Ok((
                Expr::new(dot.from, Kind::Select { operand: Box::new(operand), field, is_test: false }),
                0,
            )),
        }
    }

    fn field_name(&mut self) -> Result<Token, Problem> {
        match self.peek().kind {
            TokenKind::Identifier => Ok(self.advance()),
            TokenKind::EscapedIdentifier => Err(Problem::new(self.peek().from, "unsupported syntax: '`'")),
            TokenKind::End => Err(self.no_alternative("")),
            _ => Err(self.no_alternative(&self.text(self.peek()))),
        }
    }

    fn no_alternative(&self, after_dot: &str) -> Problem {
        Problem::new(self.peek().from, format!("Syntax error: no viable alternative at input '.{after_dot}'"))
    }

    /// The arguments of a call and its closing bracket.
    fn arguments(&mut self) -> Result<(Vec<Expr>, usize), Problem> {
        let (mut args, mut deep) = (vec![], 0);
        if self.take(")").is_some() {
            return Ok((args, deep));
        }
        loop {
            let (arg, deep_arg) = self.expr()?;
            args.push(arg);
            deep = deep.max(deep_arg);
            if self.take(",").is_none() {
                self.expect(")")?;
                return Ok((args, deep));
            }
        }
    }

    fn primary(&mut self) -> Result<Node, Problem> {
        let token = self.peek();
        let literal = |literal| Ok((Expr::literal(token.from, literal), 0));
        match token.kind {
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol(".") | TokenKind::Identifier => self.named(),
            TokenKind::Int | TokenKind::Float => Ok((self.number(token.from, false)?, 0)),
            TokenKind::Uint => {
                self.advance();
                let value = literal::uint(&self.text(token));
                literal(Literal::Uint(value.ok_or_else(|| Problem::new(token.from, "invalid uint literal"))?))
            }
            TokenKind::String => {
                self.advance();
                let text = literal::string(&self.text(token)).map_err(|why| Problem::new(token.from, why))?;
                literal(Literal::String(text))
            }
            TokenKind::Bytes => {
                self.advance();
                let bytes = literal::bytes(&self.text(token)).map_err(|why| Problem::new(token.from, why))?;
                literal(Literal::Bytes(bytes.into()))
            }
            TokenKind::True | TokenKind::False | TokenKind::Null => {
                self.advance();
                literal(match token.kind {
                    TokenKind::Null => Literal::Null,
                    kind => Literal::Bool(kind == TokenKind::True),
                })
            }
            _ => Err(self.unexpected("mismatched input", OPERAND)),
        }
    }

    fn number(&mut self, at: usize, is_negative: bool) -> Result<Expr, Problem> {
        let token = self.advance();
        let text = self.text(token);
        let (value, otherwise) = match token.kind {
            TokenKind::Int => (literal::int(&text, is_negative).map(Literal::Int), "invalid int literal"),
            _ => (literal::double(&text, is_negative).map(Literal::Double), "invalid double literal"),
        };
        value.map(|value| Expr::literal(at, value)).ok_or_else(|| Problem::new(at, otherwise))
    }

    /// A variable, a call or a message, whose name may begin with a dot.
    fn named(&mut self) -> Result<Node, Problem> {
        let start = self.peek().from;
        let dot = if self.take(".").is_some() { "." } else { "" };
        if let Some(name) = self.message_name() {
            return self.message(&format!("{dot}{name}"));
        }
        let token = self.peek();
        if token.kind != TokenKind::Identifier {
            return Err(self.unexpected("mismatched input", "IDENTIFIER"));
        }
        self.advance();
        let word = self.text(token);
        if RESERVED.contains(&word.as_str()) {
            return Err(Problem::new(start, format!("reserved identifier: {word}")));
        }
        let name = SmolStr::from(format!("{dot}{word}"));
        match self.take("(") {
            Some(open) => {
                let (args, deep) = self.arguments()?;
                Ok((macros::global(open.from, name, args)?, deep))
            }
            None => Ok((Expr::ident(token.from, name), 0)),
        }
    }

    /// The name of a message; the next token is then its opening brace. `None`, and nothing is consumed, if there is no message.
    fn message_name(&mut self) -> Option<String> {
        let is = |at: usize, kind: TokenKind| self.tokens.get(at).is_some_and(|token| token.kind == kind);
        let mut end = self.next;
        while is(end, TokenKind::Identifier) && is(end + 1, TokenKind::Symbol(".")) {
            end += 2;
        }
        if !is(end, TokenKind::Identifier) || !is(end + 1, TokenKind::Symbol("{")) {
            return None;
        }
        let words: String = self.tokens.get(self.next..=end)?.iter().map(|token| self.text(*token)).collect();
        self.next = end + 1;
        Some(words)
    }

    fn message(&mut self, name: &str) -> Result<Node, Problem> {
        let brace = self.expect("{")?;
        let (mut fields, mut deep) = (vec![], 0);
        while !self.is_next("}") && !self.is_last_comma("}") {
            let is_optional = self.take("?").is_some();
            let field = self.field_name()?;
            let colon = self.expect(":")?;
            let (value, deep_value) = self.expr()?;
            deep = deep.max(deep_value);
            fields.push(Field { at: colon.from, name: self.text(field).into(), value, is_optional });
            if self.is_last_comma("}") || self.take(",").is_none() {
                break;
            }
        }
        self.take(",");
        self.expect("}")?;
        Ok((Expr::new(brace.from, Kind::Message { name: name.into(), fields }), deep))
    }

    fn list(&mut self) -> Result<Node, Problem> {
        let open = self.expect("[")?;
        let (mut elements, mut deep) = (vec![], 0);
        while !self.is_next("]") && !self.is_last_comma("]") {
            let is_optional = self.take("?").is_some();
            let (value, deep_value) = self.expr()?;
            deep = deep.max(deep_value);
            elements.push(Element { value, is_optional });
            if self.is_last_comma("]") || self.take(",").is_none() {
                break;
            }
        }
        self.take(",");
        self.expect("]")?;
        Ok((Expr::new(open.from, Kind::List(elements)), deep))
    }

    fn map(&mut self) -> Result<Node, Problem> {
        let open = self.expect("{")?;
        let (mut entries, mut deep) = (vec![], 0);
        while !self.is_next("}") && !self.is_last_comma("}") {
            let is_optional = self.take("?").is_some();
            let (key, deep_key) = self.expr()?;
            self.expect(":")?;
            let (value, deep_value) = self.expr()?;
            deep = deep.max(deep_key).max(deep_value);
            entries.push(Entry { key, value, is_optional });
            if self.is_last_comma("}") || self.take(",").is_none() {
                break;
            }
        }
        self.take(",");
        self.expect("}")?;
        Ok((Expr::new(open.from, Kind::Map(entries)), deep))
    }

    /// Whether a trailing comma follows, which is allowed.
    fn is_last_comma(&self, end: &'static str) -> bool {
        let after = self.tokens.get(self.next + 1).map(|token| token.kind);
        self.is_next(",") && after == Some(TokenKind::Symbol(end))
    }
}

fn deepened(expr: Expr, below: usize) -> Result<Node, Problem> {
    if below >= DEEPEST { Err(Problem::whole("max recursion depth exceeded")) } else { Ok((expr, below + 1)) }
}

/// The terms in order, as a balanced tree.
fn balanced<T: Iterator<Item = Expr>>(function: &'static str, ops: &[usize], terms: &mut T) -> Option<Expr> {
    let (before, rest) = ops.split_at(ops.len() / 2);
    let Some((op, after)) = rest.split_first() else { return terms.next() };
    let left = balanced(function, before, terms)?;
    let right = balanced(function, after, terms)?;
    Some(Expr::call(*op, function, vec![left, right]))
}

/// The precedence of binary operators.
#[derive(Debug, Clone, Copy)]
enum Level {
    Relation,
    Sum,
    Product,
}

impl Level {
    /// The function of an operator, if it has this precedence.
    fn function(self, token: TokenKind) -> Option<&'static str> {
        Some(match (self, token) {
            (Self::Relation, TokenKind::In) => "@in",
            (Self::Relation, TokenKind::Symbol(symbol)) => match symbol {
                "==" => "_==_",
                "!=" => "_!=_",
                "<" => "_<_",
                "<=" => "_<=_",
                ">" => "_>_",
                ">=" => "_>=_",
                _ => return None,
            },
            (Self::Sum, TokenKind::Symbol("+")) => "_+_",
            (Self::Sum, TokenKind::Symbol("-")) => "_-_",
            (Self::Product, TokenKind::Symbol("*")) => "_*_",
            (Self::Product, TokenKind::Symbol("/")) => "_/_",
            (Self::Product, TokenKind::Symbol("%")) => "_%_",
            _ => return None,
        })
    }
}
