//! Syntax trees of expressions, after macros have been expanded.

use std::cell::OnceCell;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::library::Overload;
use crate::types::Type;

/// A node of the tree. Errors about it are reported at the character `at`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    /// Set by the checker on names and calls.
    pub(crate) reference: OnceCell<Reference>,
}

/// What a name or a call refers to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reference {
    Variable(SmolStr),
    Type(Type),
    /// A function. `overload` is `None` if it is chosen by the values at run time.
    Function {
        name: &'static str,
        is_member: bool,
        overload: Option<&'static Overload>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(SmolStr),
    /// `operand.field`; with `is_test`, `has(operand.field)`.
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

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(SmolStr),
    Bytes(Arc<[u8]>),
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

/// A fold over a list or map: `accumulator` begins as `start`, becomes `step` for each element as long as `condition` holds,
/// and `result` is the value in the end. Macros such as `all` and `map` expand to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    /// One variable is the element or the key; two are the index or the key, and the value.
    pub(crate) variables: (SmolStr, Option<SmolStr>),
    pub(crate) accumulator: SmolStr,
    pub(crate) start: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        Self { at, kind, reference: OnceCell::new() }
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

    pub(crate) fn set_reference(&self, reference: Reference) {
        let _ = self.reference.set(reference);
    }

    /// `a.b.c` as one name, if the expression consists of names only.
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
