//! Evaluates programs. Every node is charged what it costs in cel-go; evaluation ends when the budget is exceeded.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::error::Error;
use crate::functions;
use crate::map::Map;
use crate::message::Message;
use crate::plan::{Attribute, Base, Call, Fold, Node, Qualifier, QualifierKey};
use crate::show;
use crate::value::{List, Value};

/// The values of variables during one evaluation.
pub trait Variables<'a> {
    fn get(&self, name: &str) -> Option<Value<'a>>;

    /// A member of a variable that is [`Value::Members`]; `None` if there is no such member.
    fn member(&self, _variable: &str, _member: &str) -> Option<Result<Value<'a>, Error>> {
        None
    }
}

impl<'a> Variables<'a> for BTreeMap<SmolStr, Value<'a>> {
    fn get(&self, name: &str) -> Option<Value<'a>> {
        BTreeMap::get(self, name).cloned()
    }
}

pub(crate) type Outcome<'a> = Result<Value<'a>, Error>;

/// The state of one evaluation.
pub(crate) struct Evaluator<'v, 'a> {
    pub(crate) variables: &'v dyn Variables<'a>,
    /// Variables of the enclosing folds, innermost last.
    pub(crate) scope: Vec<(SmolStr, Local<'a>)>,
    pub(crate) cost: u64,
    pub(crate) budget: u64,
}

/// A variable of a fold. The start value of the accumulator is evaluated when it is first read, as in cel-go.
pub(crate) enum Local<'a> {
    Known(Outcome<'a>),
    Pending(&'a Node),
}

/// The value at the end of a chain of qualifiers.
enum Qualified<'a> {
    Plain(Value<'a>),
    /// The chain contains an optional qualifier, and the value is present.
    Optional(Value<'a>),
    Absent,
}

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const MESSAGE_COST: u64 = 40;

impl<'v, 'a> Evaluator<'v, 'a> {
    fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.budget { Err(Error::over_budget()) } else { Ok(()) }
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => {
                let resolved = self.resolve(attribute);
                if !matches!(attribute.base, Base::Choice(..)) {
                    self.charge(1)?;
                }
                resolved
            }
            Node::Test(attribute) => {
                let found = self.test(attribute);
                // Upstream: runtimecost.go, Observe: a test subtracts the cost of an attribute, although a conditional was not
                // charged one.
                if matches!(attribute.base, Base::Choice(..)) {
                    self.cost = self.cost.saturating_sub(1);
                }
                found
            }
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Call(call) => self.call(call),
            Node::OneOf(node, list) => {
                let value = self.eval(node)?;
                let list: &List<'a> = list;
                Ok(Value::Bool(list.contains(&value)))
            }
            Node::List(elements) => {
                let made = self.list(elements);
                self.charge_unless_final(&made, LIST_COST)?;
                made
            }
            Node::Map(entries) => {
                let made = self.map(entries);
                self.charge_unless_final(&made, MAP_COST)?;
                made
            }
            Node::Message(name, fields) => {
                let made = self.message(name, fields);
                self.charge_unless_final(&made, MESSAGE_COST)?;
                made
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn charge_unless_final(&mut self, outcome: &Outcome<'a>, cost: u64) -> Result<(), Error> {
        match outcome {
            Err(error) if error.is_final() => Ok(()),
            _ => self.charge(cost),
        }
    }

    /// `decisive` is the operand that decides the result: false for `&&`, true for `||`. An error is the result only if no
    /// operand is decisive.
    fn logical(&mut self, terms: &'a [Node; 2], decisive: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(Error::no_such_overload())),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn list(&mut self, elements: &'a [(Node, bool)]) -> Outcome<'a> {
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

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Outcome<'a> {
        let mut made = BTreeMap::new();
        for (key, value, is_optional) in entries {
            let shown = self.eval(key)?;
            let key = shown.key().ok_or_else(|| {
                Error::new_final(format!(
                    "internal error: runtime error: hash of unhashable type {}",
                    crate::plan::go_type(&shown)
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

    fn message(&mut self, name: &SmolStr, fields: &'a [(SmolStr, Node, bool)]) -> Outcome<'a> {
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

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        if call.name == "@not_strictly_false" {
            let value = self.arg(call, 0);
            if let Err(error) = &value
                && error.is_final()
            {
                return value;
            }
            self.charge(1)?;
            return Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))));
        }
        if matches!(call.name, "or" | "orValue") {
            return self.alternative(call);
        }
        // As in cel-go: a call of one or two arguments evaluates all of them; a longer one ends at the first error, and is
        // charged only if that is in the last argument.
        let is_short =
            call.args.len() <= 2 && call.pattern.is_none() && !matches!(call.name, "format" | "findAll");
        let mut args = Vec::with_capacity(call.args.len());
        let mut failed: Option<Error> = None;
        for at in 0..call.args.len() {
            match self.arg(call, at) {
                Err(error) if error.is_final() || !is_short && at + 1 < call.args.len() => return Err(error),
                Err(error) => {
                    failed = failed.or(Some(error));
                    args.push(None);
                }
                Ok(value) => args.push(Some(value)),
            }
        }
        if let Some(error) = failed {
            let cost = call.cost.of_failed(&args);
            self.charge(cost)?;
            return Err(error);
        }
        let mut args: Vec<Value<'a>> = args.into_iter().flatten().collect();
        let known = call.cost.before(&args);
        self.afford(known)?;
        let result = functions::apply(call, &mut args);
        let cost = call.cost.of(known, &args, &result);
        if !matches!(&result, Err(error) if error.is_final()) {
            self.charge(cost)?;
        }
        result
    }

    /// `or` and `orValue` evaluate their argument only if the target is absent, and cost nothing.
    fn alternative(&mut self, call: &'a Call) -> Outcome<'a> {
        match self.arg(call, 0)? {
            Value::Optional(Some(value)) if call.name == "orValue" => Ok(Value::clone(&value)),
            Value::Optional(None) => self.arg(call, 1),
            present => Ok(present),
        }
    }

    /// Refuses a call that would exceed the budget, before it is made.
    fn afford(&mut self, known: Option<u64>) -> Result<(), Error> {
        match known {
            Some(cost) if self.cost.saturating_add(cost) > self.budget => self.charge(cost),
            _ => Ok(()),
        }
    }

    /// Evaluates an argument. If the call extends the accumulator, the accumulator is moved out of the scope, so that it can be
    /// extended in place.
    fn arg(&mut self, call: &'a Call, at: usize) -> Outcome<'a> {
        let Some(node) = call.args.get(at) else { return Err(Error::no_such_overload()) };
        if at > 0 || !call.extends_accumulator {
            return self.eval(node);
        }
        let value = self.eval(node);
        let slot = self.scope.iter_mut().rev().find(|(name, _)| name == crate::macros::ACCUMULATOR);
        if let Some((_, slot)) = slot {
            *slot = Local::Known(Ok(Value::Null));
        }
        value
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let outside = self.scope.len();
        self.scope.push((fold.accumulator.clone(), Local::Pending(&fold.start)));
        let iterated = self.iterate(fold, &range, outside);
        self.scope.truncate(outside + 1);
        let result = iterated.and_then(|()| self.eval(&fold.result));
        self.scope.truncate(outside);
        result
    }

    fn iterate(&mut self, fold: &'a Fold, range: &Value<'a>, outside: usize) -> Result<(), Error> {
        let has_two = fold.variables.1.is_some();
        match range {
            Value::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    let (first, second) = match has_two {
                        true => (Value::Int(at as i64), Some(element)),
                        false => (element, None),
                    };
                    if !self.iteration(fold, first, second, outside)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if !self.iteration(fold, key, has_two.then_some(value), outside)? {
                        break;
                    }
                }
                Ok(())
            }
            other if has_two => {
                let of = crate::plan::go_type(other);
                Err(Error::new(format!("unsupported comprehension range type: {of}")))
            }
            other => {
                let of = crate::plan::go_type(other);
                Err(Error::new(format!("got '{of}', expected iterable type")))
            }
        }
    }

    /// One iteration of a fold; false if its condition no longer holds.
    fn iteration(
        &mut self,
        fold: &'a Fold,
        first: Value<'a>,
        second: Option<Value<'a>>,
        outside: usize,
    ) -> Result<bool, Error> {
        self.scope.truncate(outside + 1);
        self.scope.push((fold.variables.0.clone(), Local::Known(Ok(first))));
        if let (Some(name), Some(value)) = (&fold.variables.1, second) {
            self.scope.push((name.clone(), Local::Known(Ok(value))));
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(error) if error.is_final() => return Err(error),
            _ => {}
        }
        let next = self.eval(&fold.step);
        if let Err(error) = &next
            && error.is_final()
        {
            return Err(error.clone());
        }
        if let Some((_, slot)) = self.scope.get_mut(outside) {
            *slot = Local::Known(next);
        }
        Ok(true)
    }

    fn lookup(&mut self, name: &SmolStr) -> Outcome<'a> {
        let Some(at) = self.scope.iter().rposition(|(known, _)| known == name) else {
            let found = self.variables.get(name);
            return found.ok_or_else(|| Error::new(format!("no such attribute(s): {name}")));
        };
        match &self.scope[at].1 {
            Local::Known(value) => value.clone(),
            Local::Pending(start) => {
                let start: &'a Node = start;
                // The start value is evaluated outside of the fold.
                let hidden: Vec<_> = self.scope.drain(at..).collect();
                let value = self.eval(start);
                self.scope.truncate(at);
                self.scope.extend(hidden);
                if let Some((_, slot)) = self.scope.get_mut(at) {
                    *slot = Local::Known(value.clone());
                }
                value
            }
        }
    }

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

    fn resolve(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
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
    fn test(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
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

/// Appends to a list, in place if it is not shared.
pub(crate) fn extended<'a>(list: List<'a>, more: &List<'a>) -> List<'a> {
    match list {
        List::Made(mut elements) => {
            Arc::make_mut(&mut elements).extend(more.iter());
            List::Made(elements)
        }
        other => List::Made(Arc::new(other.iter().chain(more.iter()).collect())),
    }
}
