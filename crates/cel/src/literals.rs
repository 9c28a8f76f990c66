//! What a checked expression shows without being evaluated: malformed literals of durations, timestamps and patterns, and the
//! variables that it refers to.

use std::collections::BTreeSet;

use smol_str::SmolStr;

use crate::ast::{Expr, Kind, Literal, Reference};
use crate::functions::text;
use crate::source::Problem;
use crate::time;

/// A problem for each malformed literal of a duration, timestamp or pattern.
pub(crate) fn malformed(expr: &Expr) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (function, is_good) in CHECKS {
        walk(expr, &mut |expr| {
            if let Kind::Call { function: called, target, args } = &expr.kind
                && called == function
                && let Some((arg, literal)) = literal(function, target.as_deref(), args)
                && !is_good(literal)
            {
                problems.push(Problem::new(arg.at, format!("invalid {function} argument")));
            }
        });
    }
    problems
}

/// A function, and whether a literal is a valid argument of it.
type Check = (&'static str, fn(&Literal) -> bool);

const CHECKS: [Check; 3] = [
    ("duration", |literal| match literal {
        Literal::String(text) => time::parse_duration(text).is_some(),
        _ => false,
    }),
    ("timestamp", |literal| match literal {
        Literal::String(text) => {
            time::parse_timestamp(text).is_some_and(|time| time::SECONDS.contains(&time.as_second()))
        }
        Literal::Int(seconds) => time::SECONDS.contains(seconds),
        _ => false,
    }),
    ("matches", |literal| match literal {
        Literal::String(text) => text::compile(text).is_ok(),
        _ => true,
    }),
];

/// The argument that is checked, if it is a literal.
fn literal<'e>(
    function: &str,
    target: Option<&'e Expr>,
    args: &'e [Expr],
) -> Option<(&'e Expr, &'e Literal)> {
    let arg = match (function, target, args) {
        ("matches", Some(_), [pattern]) | ("matches", None, [_, pattern]) => pattern,
        ("duration" | "timestamp", None, [arg]) => arg,
        _ => return None,
    };
    match &arg.kind {
        Kind::Literal(literal) => Some((arg, literal)),
        _ => None,
    }
}

/// The variables that an expression refers to.
pub(crate) fn names(expr: &Expr) -> BTreeSet<SmolStr> {
    let mut names = BTreeSet::new();
    walk(expr, &mut |expr| {
        if let Some(Reference::Variable(name)) = expr.reference.get() {
            names.insert(name.clone());
        }
    });
    names
}

fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(expr);
    match &expr.kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => walk(operand, visit),
        Kind::Call { target, args, .. } => {
            target.iter().for_each(|target| walk(target, visit));
            args.iter().for_each(|arg| walk(arg, visit));
        }
        Kind::List(elements) => elements.iter().for_each(|element| walk(&element.value, visit)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            walk(&entry.key, visit);
            walk(&entry.value, visit);
        }),
        Kind::Message { fields, .. } => fields.iter().for_each(|field| walk(&field.value, visit)),
        Kind::Comprehension(fold) => {
            for part in [&fold.range, &fold.start, &fold.condition, &fold.step, &fold.result] {
                walk(part, visit);
            }
        }
    }
}
