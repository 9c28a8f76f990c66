//! What expressions may refer to: variables, functions and the fields of objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::library;
use crate::message;
use crate::parser::RESERVED;
use crate::types::Type;

/// The fields of an object type, by the names that expressions use.
pub type Fields = BTreeMap<SmolStr, Type>;

/// What an expression may refer to besides the functions of the libraries, which all expressions can call.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<SmolStr, Type>,
    /// Shared sets of object types. Later sets have precedence.
    objects: Vec<Arc<BTreeMap<SmolStr, Fields>>>,
    makes_patches: bool,
}

impl Env {
    pub fn variable(&mut self, name: impl Into<SmolStr>, of: Type) {
        self.variables.insert(name.into(), of);
    }

    pub fn objects(&mut self, objects: Arc<BTreeMap<SmolStr, Fields>>) {
        self.objects.push(objects);
    }

    /// Lets expressions make patches: apply configurations (`Object{…}`) and JSON patches (`JSONPatch{…}`).
    pub fn patches(&mut self) {
        self.makes_patches = true;
    }

    pub(crate) fn makes_patches(&self) -> bool {
        self.makes_patches
    }

    /// The type of a name: a variable's own, or that of a type.
    pub(crate) fn name(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let declared = self.variables.get(name).cloned().or_else(|| library::type_name(name));
        let is_known = || self.fields(name).is_some() || (self.makes_patches && message::is_made(name));
        declared.or_else(|| is_known().then(|| Type::Object(name.into()).of()))
    }

    pub(crate) fn is_variable(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    pub(crate) fn fields(&self, object: &str) -> Option<&Fields> {
        self.objects.iter().rev().find_map(|objects| objects.get(object))
    }

    /// The type of a field. A reserved word may be selected as `object.namespace`, although it is declared as `__namespace__`.
    pub(crate) fn field(&self, object: &str, field: &str) -> Option<&Type> {
        if self.makes_patches && message::is_made(object) {
            return message::field(object, field);
        }
        let fields = self.fields(object)?;
        fields.get(field).or_else(|| match is_reserved(field) {
            true => fields.get(escaped(field)?.as_str()),
            false => None,
        })
    }
}

fn is_reserved(name: &str) -> bool {
    ["true", "false", "null", "in"].contains(&name) || RESERVED.contains(&name)
}

/// Whether an expression can refer to a variable or field of this name.
pub fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !is_reserved(name)
}

/// The name of a property in expressions: escaped if it is not an identifier; `None` if it cannot be escaped.
pub fn escaped(property: &str) -> Option<SmolStr> {
    if property.is_empty() || property.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(property) {
        return Some(format!("__{property}__").into());
    }
    let mut name = String::with_capacity(property.len());
    let mut rest = property.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '_' if rest.next_if_eq(&'_').is_some() => name.push_str("__underscores__"),
            '.' => name.push_str("__dot__"),
            '-' => name.push_str("__dash__"),
            '/' => name.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => name.push(c),
            _ => return None,
        }
    }
    Some(name.into())
}
