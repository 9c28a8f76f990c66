//! The types of expressions, and their names in messages.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

/// The static type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known only at run time; accepted everywhere.
    Dyn,
    /// The type of an expression with a problem; accepted everywhere, so that the problem is reported once.
    Error,
    Null,
    Bool,
    /// 64-bit integers.
    Int,
    /// Unsigned 64-bit integers.
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// The type of a type, such as that of `int`; `None` if it is not known which one.
    Type(Option<Arc<Type>>),
    /// An object type of the environment, by name.
    Object(SmolStr),
    /// A type without members, such as `optional_type(int)`.
    Opaque(SmolStr, Arc<[Type]>),
    /// A type parameter of a declaration, such as `A` in `list(A)`.
    Param(SmolStr),
    /// A type variable: a type parameter in one use of a declaration. `unify` binds it.
    Var(u32),
}

/// The name of the opaque type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(value: Self) -> Self {
        Self::Opaque(SmolStr::new_static(OPTIONAL), Arc::new([value]))
    }

    /// The object type of this name.
    pub fn named(name: &'static str) -> Self {
        Self::Object(SmolStr::new_static(name))
    }

    /// The type of a type.
    pub(crate) fn of(self) -> Self {
        Self::Type(Some(Arc::new(self)))
    }

    /// The type of the value of an optional; `None` for other types.
    pub(crate) fn optional_value(&self) -> Option<&Self> {
        match self {
            Self::Opaque(name, parameters) if name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Whether `null` is a value of it.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(self, Self::Null | Self::Opaque(..) | Self::Object(_) | Self::Timestamp | Self::Duration)
    }

    /// The type with `change` applied to its parts.
    pub(crate) fn rebuilt(&self, mut change: impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(element) => Self::list(change(element)),
            Self::Map(key, value) => Self::map(change(key), change(value)),
            Self::Type(Some(inner)) => change(inner).of(),
            Self::Opaque(name, parameters) => {
                Self::Opaque(name.clone(), parameters.iter().map(change).collect())
            }
            simple => simple.clone(),
        }
    }

    pub(crate) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(key, value) => vec![key, value],
            Self::Type(Some(inner)) => vec![inner],
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            _ => vec![],
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Type(_) => "type",
            Self::Object(name) | Self::Opaque(name, _) | Self::Param(name) => name,
            Self::Var(number) => return write!(f, "_var{number}"),
        };
        f.write_str(name)?;
        let parts = self.parts();
        if parts.is_empty() {
            return Ok(());
        }
        for (at, part) in parts.iter().enumerate() {
            write!(f, "{}{part}", if at == 0 { "(" } else { ", " })?;
        }
        f.write_str(")")
    }
}
