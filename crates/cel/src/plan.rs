//! Turns a checked tree into nodes that can be evaluated. Constant parts are computed here exactly where cel-go computes them,
//! because costs depend on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use smol_str::SmolStr;

use crate::ast::{Comprehension, Entry, Expr, Kind, Literal, Reference};
use crate::cost::{Cost, call_cost};
use crate::error::Error;
use crate::functions::{self, Operation};
use crate::library::type_value_name;
use crate::macros::ACCUMULATOR;
use crate::map::Map;
use crate::message;
use crate::value::{List, Value};

/// A part of a program.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value<'static>),
    Attribute(Attribute),
    /// `has(attribute)`: whether the member of the last qualifier is present.
    Test(Attribute),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Call(Box<Call>),
    /// `value in [constants]`
    OneOf(Box<Node>, List<'static>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Message(SmolStr, Vec<(SmolStr, Node, bool)>),
    Fold(Box<Fold>),
}

/// A variable or another value, and the qualifiers that select from it: `a.b[0]`. (cel-go's term.)
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Base {
    Variable(SmolStr),
    Value(Box<Node>),
    Choice(Box<Node>, Box<[Attribute; 2]>),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) is_optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Constant(Value<'static>),
    Attribute(Attribute),
    Value(Node),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    pub(crate) args: Vec<Node>,
    pub(crate) cost: Cost,
    /// The compiled pattern, if it is a constant.
    pub(crate) pattern: Option<Regex>,
    /// Whether the first argument is the accumulator of a fold.
    pub(crate) extends_accumulator: bool,
}

/// A planned [`Comprehension`].
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) variables: (SmolStr, Option<SmolStr>),
    pub(crate) accumulator: SmolStr,
    pub(crate) start: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// Fails with cel-go's message if it cannot make a program of the expression.
pub(crate) fn plan(expr: &Expr) -> Result<Node, Error> {
    match &expr.kind {
        Kind::Literal(literal) => Ok(Node::Constant(constant(literal))),
        Kind::Ident(name) => Ok(named(expr).unwrap_or_else(|| variable(name.clone()))),
        Kind::Select { operand, field, is_test } => {
            if let Some(node) = named(expr) {
                return Ok(node);
            }
            let key = QualifierKey::Constant(Value::string(field.as_str()));
            let mut attribute = attribute(plan(operand)?);
            attribute.add(Qualifier { key, is_optional: false });
            Ok(if *is_test { Node::Test(attribute) } else { Node::Attribute(attribute) })
        }
        Kind::Call { function, target, args } => call(expr, function, target.as_deref(), args),
        Kind::List(elements) => {
            let planned: Result<Vec<_>, Error> =
                elements.iter().map(|element| Ok((plan(&element.value)?, element.is_optional))).collect();
            Ok(known_list(planned?))
        }
        Kind::Map(entries) => map(entries),
        Kind::Message { name, fields } if message::is_made(name) => {
            let planned: Result<Vec<_>, Error> = fields
                .iter()
                .map(|field| Ok((field.name.clone(), plan(&field.value)?, field.is_optional)))
                .collect();
            Ok(Node::Message(name.clone(), planned?))
        }
        Kind::Message { name, .. } => Err(Error::new(format!("unknown type: {name}"))),
        Kind::Comprehension(fold) => comprehension(fold),
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}

fn named(expr: &Expr) -> Option<Node> {
    match expr.reference.get()? {
        Reference::Variable(name) => Some(variable(name.clone())),
        Reference::Type(of) => Some(Node::Constant(Value::Type(type_value_name(of)))),
        Reference::Function { .. } => None,
    }
}

fn variable(name: SmolStr) -> Node {
    Node::Attribute(Attribute { base: Base::Variable(name), qualifiers: vec![] })
}

/// The node as an attribute, to which qualifiers can be added.
fn attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => attribute,
        other => Attribute { base: Base::Value(Box::new(other)), qualifiers: vec![] },
    }
}

impl Attribute {
    fn add(&mut self, qualifier: Qualifier) {
        self.qualifiers.push(qualifier);
    }
}

fn call(expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Result<Node, Error> {
    let Some(Reference::Function { name, is_member, overload }) = expr.reference.get() else {
        return optional_selection(function, args);
    };
    let (name, is_member, overload) = (*name, *is_member, *overload);
    let target = target.filter(|_| is_member);
    let mut planned = Vec::with_capacity(args.len() + 1);
    for arg in target.into_iter().chain(args) {
        planned.push(plan(arg)?);
    }
    match name {
        "_&&_" | "_||_" => {
            let Ok(terms) = <[Node; 2]>::try_from(planned) else { return Err(Error::no_such_overload()) };
            Ok(if name == "_&&_" { Node::And(Box::new(terms)) } else { Node::Or(Box::new(terms)) })
        }
        "_?_:_" => {
            let Ok([test, yes, no]) = <[Node; 3]>::try_from(planned) else {
                return Err(Error::no_such_overload());
            };
            let branches = Box::new([branch(yes), branch(no)]);
            let base = Base::Choice(Box::new(test), branches);
            Ok(Node::Attribute(Attribute { base, qualifiers: vec![] }))
        }
        "_[_]" | "_[?_]" => indexed(planned, name == "_[?_]"),
        _ => {
            let operation =
                functions::operation(name).ok_or_else(|| Error::new(format!("no such overload: {name}")))?;
            let is_list = |at: usize| {
                overload.is_some_and(|overload| matches!(overload.args().get(at), Some(crate::Type::List(_))))
            };
            let cost = call_cost(name, is_member, overload);
            let call =
                Call { name, operation, args: planned, cost, pattern: None, extends_accumulator: false };
            known_call(call, is_list(1))
        }
    }
}

/// `operand.?field`, which the checker resolves without a function.
fn optional_selection(function: &str, args: &[Expr]) -> Result<Node, Error> {
    match (function, args) {
        ("_?._", [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }]) => {
            let mut attribute = attribute(plan(operand)?);
            let key = QualifierKey::Constant(Value::string(field.as_str()));
            attribute.add(Qualifier { key, is_optional: true });
            Ok(Node::Attribute(attribute))
        }
        _ => Err(Error::new(format!("no such overload: {function}"))),
    }
}

fn branch(node: Node) -> Attribute {
    attribute(node)
}

fn indexed(planned: Vec<Node>, is_optional: bool) -> Result<Node, Error> {
    let Ok([operand, index]) = <[Node; 2]>::try_from(planned) else { return Err(Error::no_such_overload()) };
    let mut attribute = attribute(operand);
    let key = match index {
        Node::Constant(value) => match value {
            Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                QualifierKey::Constant(value)
            }
            other => return Err(Error::new(format!("invalid qualifier type: {}", go_type(&other)))),
        },
        Node::Attribute(attribute) => QualifierKey::Attribute(attribute),
        other => QualifierKey::Value(other),
    };
    attribute.add(Qualifier { key, is_optional });
    Ok(Node::Attribute(attribute))
}

/// The name of a value's type in Go, for messages.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Opaque(_) => "cel.Quantity",
        Value::Message(_) => "*dynamic.ObjectVal",
        Value::Members(_) => "*lazy.MapValue",
    }
}

/// Computes conversions of constants, simplifies membership in constant lists, and compiles constant patterns.
fn known_call(mut call: Call, is_in_list: bool) -> Result<Node, Error> {
    let known = |node: Option<&Node>| match node {
        Some(Node::Constant(value)) => Some(value.clone()),
        _ => None,
    };
    match call.name {
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type"
        | "uint" => {
            if let ([Node::Constant(value)], name) = (call.args.as_slice(), call.name) {
                let made = functions::apply_constant(name, value.clone())?;
                return Ok(Node::Constant(made));
            }
        }
        "@in" if is_in_list => {
            if let Some(Value::List(list)) = known(call.args.get(1)) {
                if list.is_empty() {
                    return Ok(Node::Constant(Value::Bool(false)));
                }
                let is_simple = |value: &Value<'_>| {
                    matches!(
                        value,
                        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
                    )
                };
                if list.iter().all(|element| is_simple(&element)) {
                    return Ok(Node::OneOf(Box::new(call.args.swap_remove(0)), list));
                }
            }
        }
        "matches" | "find" | "findAll" => {
            if let Some(Value::String(pattern)) = known(call.args.get(1)) {
                call.pattern = Some(functions::text::compile(&pattern).map_err(Error::new)?);
            }
        }
        _ => {}
    }
    Ok(Node::Call(Box::new(call)))
}

fn known_list(elements: Vec<(Node, bool)>) -> Node {
    let values: Option<Vec<Value<'static>>> = elements
        .iter()
        .map(|(node, is_optional)| match node {
            Node::Constant(value) if !is_optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    values.map_or(Node::List(elements), |values| Node::Constant(Value::list(values)))
}

fn map(entries: &[Entry]) -> Result<Node, Error> {
    let mut planned = Vec::with_capacity(entries.len());
    for entry in entries {
        planned.push((plan(&entry.key)?, plan(&entry.value)?, entry.is_optional));
    }
    let known: Option<BTreeMap<_, _>> = planned
        .iter()
        .map(|entry| match entry {
            (Node::Constant(key), Node::Constant(value), false) => Some((key.key()?, value.clone())),
            _ => None,
        })
        .collect();
    Ok(known.map_or(Node::Map(planned), |known| Node::Constant(Value::Map(Map::made(known)))))
}

fn comprehension(fold: &Comprehension) -> Result<Node, Error> {
    let mut step = plan(&fold.step)?;
    if fold.accumulator == ACCUMULATOR {
        mark_extension(&mut step);
    }
    Ok(Node::Fold(Box::new(Fold {
        range: plan(&fold.range)?,
        variables: fold.variables.clone(),
        accumulator: fold.accumulator.clone(),
        start: plan(&fold.start)?,
        condition: plan(&fold.condition)?,
        step,
        result: plan(&fold.result)?,
    })))
}

/// Marks a step that adds to the accumulator, which can then be done in place.
fn mark_extension(step: &mut Node) {
    match step {
        Node::Call(call) if matches!(call.name, "_+_" | "cel.@mapInsert") => {
            call.extends_accumulator = matches!(
                call.args.first(),
                Some(Node::Attribute(Attribute { base: Base::Variable(name), qualifiers })) if name == ACCUMULATOR && qualifiers.is_empty()
            );
        }
        Node::Attribute(Attribute { base: Base::Choice(_, branches), qualifiers })
            if qualifiers.is_empty() =>
        {
            if let Base::Value(node) = &mut branches[0].base {
                mark_extension(node);
            }
        }
        _ => {}
    }
}

/// How deep the evaluation will recurse.
pub(crate) fn depth(node: &Node) -> usize {
    let inner = match node {
        Node::Constant(_) => 0,
        Node::Attribute(attribute) | Node::Test(attribute) => attribute_depth(attribute),
        Node::And(terms) | Node::Or(terms) => terms.iter().map(depth).max().unwrap_or_default(),
        Node::Call(call) => call.args.iter().map(depth).max().unwrap_or_default(),
        Node::OneOf(node, _) => depth(node),
        Node::List(elements) => elements.iter().map(|(node, _)| depth(node)).max().unwrap_or_default(),
        Node::Map(entries) => {
            entries.iter().map(|(key, value, _)| depth(key).max(depth(value))).max().unwrap_or_default()
        }
        Node::Message(_, fields) => fields.iter().map(|(_, node, _)| depth(node)).max().unwrap_or_default(),
        Node::Fold(fold) => [&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result]
            .into_iter()
            .map(depth)
            .max()
            .unwrap_or_default(),
    };
    inner + 1
}

fn attribute_depth(attribute: &Attribute) -> usize {
    let base = match &attribute.base {
        Base::Variable(_) => 0,
        Base::Value(node) => depth(node),
        Base::Choice(test, branches) => {
            depth(test).max(branches.iter().map(attribute_depth).max().unwrap_or_default())
        }
    };
    let qualifiers = attribute.qualifiers.iter().map(|qualifier| match &qualifier.key {
        QualifierKey::Constant(_) => 0,
        QualifierKey::Attribute(attribute) => attribute_depth(attribute),
        QualifierKey::Value(node) => depth(node),
    });
    base.max(qualifiers.max().unwrap_or_default()) + 1
}
