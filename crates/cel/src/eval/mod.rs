//! Evaluates programs. Every node is charged what it costs in cel-go; evaluation ends when the budget is exceeded.

mod attribute;
mod call;
mod construct;
mod fold;

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::error::Error;
use crate::plan::{Base, Node};
use crate::value::{List, Value};

pub(crate) use call::extended;

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

const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const MESSAGE_COST: u64 = 40;

impl<'a> Evaluator<'_, 'a> {
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
}
