//! Lists, maps and messages that an expression constructs.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::{Evaluator, Outcome};
use crate::error::Error;
use crate::map::Map;
use crate::message::Message;
use crate::plan::{Node, go_type};
use crate::show;
use crate::value::Value;

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn list(&mut self, elements: &'a [(Node, bool)]) -> Outcome<'a> {
        let mut made = Vec::with_capacity(elements.len());
        for (node, is_optional) in elements {
            let value = self.eval(node)?;
            match (is_optional, value) {
                (true, Value::Optional(Some(value))) => made.push(Value::clone(&value)),
                (true, Value::Optional(None)) => {}
                (true, other) => {
                    let shown = show::plain(&other);
                    return Err(Error::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
                (false, value) => made.push(value),
            }
        }
        Ok(Value::list(made))
    }

    pub(super) fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for (key, value, is_optional) in entries {
            let shown = self.eval(key)?;
            let key = shown.key().ok_or_else(|| {
                Error::new_final(format!(
                    "internal error: runtime error: hash of unhashable type {}",
                    go_type(&shown)
                ))
            })?;
            let value = self.eval(value)?;
            match (is_optional, value) {
                (true, Value::Optional(Some(value))) => made.insert(key, Value::clone(&value)),
                (true, Value::Optional(None)) => made.remove(&key),
                (true, other) => {
                    let (key, other) = (show::plain(&shown), show::plain(&other));
                    return Err(Error::new(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {other}"
                    )));
                }
                (false, value) => made.insert(key, value),
            };
        }
        Ok(Value::Map(Map::made(made)))
    }

    pub(super) fn message(&mut self, name: &SmolStr, fields: &'a [(SmolStr, Node, bool)]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for (field, node, is_optional) in fields {
            match (is_optional, self.eval(node)?) {
                (true, Value::Optional(Some(value))) => made.insert(field.clone(), Value::clone(&value)),
                (true, Value::Optional(None)) => made.remove(field),
                (true, other) => {
                    let other = show::plain(&other);
                    return Err(Error::new(format!(
                        "cannot initialize optional entry '{field}' from non-optional value {other}"
                    )));
                }
                (false, value) => made.insert(field.clone(), value),
            };
        }
        Message::made(name, made)
    }
}
