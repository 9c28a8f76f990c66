//! The types of expressions, and how messages spell them.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

/// What is known of a value before it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known only when evaluated; fits everything.
    Dyn,
    /// The type of what is wrong already; fits everything, so that one mistake is reported once.
    Error,
    /// Of `null`.
    Null,
    /// Of `true` and `false`.
    Bool,
    /// Of 64-bit integers.
    Int,
    /// Of 64-bit integers without a sign.
    Uint,
    Double,
    String,
    /// Of bytes.
    Bytes,
    Timestamp,
    Duration,
    /// Of lists of one type.
    List(Arc<Type>),
    /// Of maps from one type to another.
    Map(Arc<Type>, Arc<Type>),
    /// Of types themselves; which one, if that is known.
    Type(Option<Arc<Type>>),
    /// Of objects with named fields, which the environment knows by this name.
    Object(SmolStr),
    /// Of values that only functions look into, such as `optional_type(int)`.
    Opaque(SmolStr, Arc<[Type]>),
    /// What a declaration leaves open, such as `A` in `list(A)`.
    Param(SmolStr),
    /// What one use of a declaration leaves open until it is bound.
    Var(u32),
}

/// The name of the opaque type of values that may be absent.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// A map from one to the other.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// A value that may be absent.
    pub fn optional(value: Self) -> Self {
        Self::Opaque(SmolStr::new_static(OPTIONAL), Arc::new([value]))
    }

    /// The type of a type.
    pub(crate) fn of(self) -> Self {
        Self::Type(Some(Arc::new(self)))
    }

    pub(crate) fn held(&self) -> Option<&Self> {
        match self {
            Self::Opaque(name, parameters) if name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Whether `null` is a value of it.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(self, Self::Null | Self::Opaque(..) | Self::Object(_) | Self::Timestamp | Self::Duration)
    }

    /// Itself with `change` made to what it consists of.
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
