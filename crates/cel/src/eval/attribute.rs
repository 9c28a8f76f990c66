//! Attributes: a variable or value, followed by qualifiers (`.field`, `[key]`, `.?field`).

use super::{Evaluator, Outcome};
use crate::error::Error;
use crate::functions;
use crate::plan::{Attribute, Base, Qualifier, QualifierKey};
use crate::show;
use crate::value::Value;

/// The value at the end of a chain of qualifiers.
enum Qualified<'a> {
    Plain(Value<'a>),
    /// The chain contains an optional qualifier, and the value is present.
    Optional(Value<'a>),
    Absent,
}

impl<'a> Evaluator<'_, 'a> {
    fn base(&mut self, base: &'a Base) -> Outcome<'a> {
        match base {
            Base::Variable(name) => self.lookup(name),
            Base::Value(node) => self.eval(node),
            Base::Choice(test, branches) => match self.eval(test)? {
                Value::Bool(true) => self.resolve(&branches[0]),
                Value::Bool(false) => self.resolve(&branches[1]),
                _ => Err(Error::no_such_overload()),
            },
        }
    }

    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let base = self.base(&attribute.base)?;
        self.qualify(base, &attribute.qualifiers)
    }

    /// Applies qualifiers to a value. If the value or one of them is optional, a missing member gives an absent optional instead
    /// of an error.
    fn qualify(&mut self, base: Value<'a>, qualifiers: &'a [Qualifier]) -> Outcome<'a> {
        if qualifiers.is_empty() {
            return Ok(base);
        }
        Ok(match self.follow(base, qualifiers)? {
            Qualified::Absent => Value::Optional(None),
            Qualified::Optional(value) => Value::some(value),
            Qualified::Plain(value) => value,
        })
    }

    fn follow(&mut self, base: Value<'a>, qualifiers: &'a [Qualifier]) -> Result<Qualified<'a>, Error> {
        let (mut object, mut is_optional) = match base {
            Value::Optional(None) => return Ok(Qualified::Absent),
            Value::Optional(Some(value)) => (Value::clone(&value), true),
            other => (other, false),
        };
        for qualifier in qualifiers {
            is_optional |= qualifier.is_optional;
            let key = self.key(qualifier, is_optional)?;
            match self.select(&object, &key, is_optional) {
                Ok(Some(value)) => {
                    self.charge(1)?;
                    object = value;
                }
                Ok(None) if is_optional => return Ok(Qualified::Absent),
                Ok(None) => return Err(Error::no_such_overload()),
                Err(error) => {
                    if !is_optional && !error.is_final() {
                        self.charge(1)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(if is_optional { Qualified::Optional(object) } else { Qualified::Plain(object) })
    }

    fn key(&mut self, qualifier: &'a Qualifier, is_optional: bool) -> Outcome<'a> {
        let key = match &qualifier.key {
            QualifierKey::Constant(value) => return Ok(value.clone()),
            QualifierKey::Attribute(attribute) => self.resolve(attribute),
            QualifierKey::Value(node) => self.eval(node),
        };
        // A key that cannot be evaluated is charged like one that can.
        if !is_optional && matches!(&key, Err(error) if !error.is_final()) {
            self.charge(1)?;
        }
        key
    }

    /// `has()`: applies all qualifiers but the last, and tests whether the last member is present.
    pub(super) fn test(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let Some((last, before)) = attribute.qualifiers.split_last() else { return Ok(Value::Bool(true)) };
        let base = self.base(&attribute.base)?;
        let (is_in_optional, object) = match self.follow(base, before)? {
            Qualified::Absent => return Ok(Value::Bool(false)),
            Qualified::Optional(value) => (true, value),
            Qualified::Plain(value) => (false, value),
        };
        let key = self.key(last, is_in_optional)?;
        let found = self.select(&object, &key, true);
        if !is_in_optional || matches!(found, Ok(Some(_))) {
            self.charge(1)?;
        }
        Ok(Value::Bool(found?.is_some()))
    }

    /// A member of a value. If it is missing: `None` if `is_lenient`, otherwise an error.
    fn select(
        &self,
        object: &Value<'a>,
        key: &Value<'a>,
        is_lenient: bool,
    ) -> Result<Option<Value<'a>>, Error> {
        let missing = |message: String| if is_lenient { Ok(None) } else { Err(Error::new(message)) };
        match object {
            Value::Map(map) => match map.find(key) {
                Some(value) => Ok(Some(value)),
                None => missing(format!("no such key: {}", show::plain(key))),
            },
            Value::List(list) => {
                let at = functions::list::index(key)?;
                match usize::try_from(at).ok().and_then(|at| list.get(at)) {
                    Some(value) => Ok(Some(value)),
                    None => missing(format!("index out of bounds: {}", show::plain(key))),
                }
            }
            Value::Members(name) => {
                let member = key.as_str().and_then(|member| self.variables.member(name, member));
                match member {
                    Some(value) => value.map(Some),
                    None => missing(format!("no such key: {}", show::plain(key))),
                }
            }
            _ => missing(format!("no such key: {}", show::plain(key))),
        }
    }
}
