//! Expressions as trees. Macros are expanded in them already.

use smol_str::SmolStr;

/// A node, and the character that it is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(SmolStr),
    /// `operand.field`, or whether it is there.
    Select {
        operand: Box<Expr>,
        field: SmolStr,
        is_test: bool,
    },
    Call {
        function: SmolStr,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Message {
        name: SmolStr,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

/// A value written down. Nothing is evaluated here, so only what checks need is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String(SmolStr),
    Bytes,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) at: usize,
    pub(crate) name: SmolStr,
    pub(crate) value: Expr,
    pub(crate) is_optional: bool,
}

/// A fold over a list or map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    /// The element or key; with two, index or key and value.
    pub(crate) variables: (SmolStr, Option<SmolStr>),
    pub(crate) accumulator: SmolStr,
    pub(crate) start: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        Self { at, kind }
    }

    pub(crate) fn literal(at: usize, literal: Literal) -> Self {
        Self::new(at, Kind::Literal(literal))
    }

    pub(crate) fn ident(at: usize, name: impl Into<SmolStr>) -> Self {
        Self::new(at, Kind::Ident(name.into()))
    }

    pub(crate) fn call(at: usize, function: impl Into<SmolStr>, args: Vec<Self>) -> Self {
        Self::new(at, Kind::Call { function: function.into(), target: None, args })
    }

    pub(crate) fn member(at: usize, function: impl Into<SmolStr>, target: Self, args: Vec<Self>) -> Self {
        Self::new(at, Kind::Call { function: function.into(), target: Some(Box::new(target)), args })
    }

    /// `a.b.c` as one name, if it is nothing else.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.to_string()),
            Kind::Select { operand, field, is_test: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }
}
