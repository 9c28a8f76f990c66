//! The implementations of functions. They check the types of their arguments, because the types of `dyn` values are known only
//! at run time.

pub(crate) mod address;
mod arithmetic;
pub mod authz;
mod conversion;
pub(crate) mod format;
pub(crate) mod list;
mod optional;
mod quantity;
pub(crate) mod semver;
pub(crate) mod text;
mod text_format;
mod timestamp;
pub(crate) mod url;

use crate::error::Error;
use crate::eval::Outcome;
use crate::library;
use crate::plan::Call;
use crate::value::Value;

/// The implementation of a function. It may move values out of its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Operation(for<'a> fn(&mut [Value<'a>]) -> Outcome<'a>);

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Operation")
    }
}

pub(crate) fn operation(name: &str) -> Option<Operation> {
    arithmetic::operation(name)
        .or_else(|| conversion::operation(name))
        .or_else(|| list::operation(name))
        .or_else(|| text::operation(name))
        .or_else(|| optional::operation(name))
        .or_else(|| timestamp::operation(name))
        .or_else(|| quantity::operation(name))
        .or_else(|| address::operation(name))
        .or_else(|| url::operation(name))
        .or_else(|| format::operation(name))
        .or_else(|| authz::operation(name))
        .map(Operation)
}

type Function = for<'a> fn(&mut [Value<'a>]) -> Outcome<'a>;

/// Calls a function with evaluated arguments.
pub(crate) fn apply<'a>(call: &Call, args: &mut [Value<'a>]) -> Outcome<'a> {
    if is_guarded(call.name) && !library::accepts(call.name, args) {
        let given: Vec<&str> = args.iter().map(Value::type_name).collect();
        return Err(Error::new(format!("no such overload: {}({})", call.name, given.join(", "))));
    }
    match &call.pattern {
        Some(pattern) => text::matching(call.name, pattern, args),
        None => (call.operation.0)(args),
    }
}

/// Whether cel-go checks the types of the arguments before it calls the function. Operators, and functions that are methods of
/// values, check them themselves, with other errors.
fn is_guarded(name: &str) -> bool {
    let is_operator = name.starts_with(['_', '!', '-', '@']) || name.starts_with("cel.@");
    !is_operator
        && !name.starts_with("get")
        && !matches!(
            name,
            "size" | "contains" | "startsWith" | "endsWith" | "matches" | "sort" | "flatten" | "type" | "dyn"
        )
}

/// Applies a conversion to a constant, at compile time.
pub(crate) fn apply_constant(name: &str, value: Value<'static>) -> Outcome<'static> {
    let operation = operation(name).ok_or_else(Error::no_such_overload)?;
    let mut args = [value];
    if is_guarded(name) && !library::accepts(name, &args) {
        let given = args.first().map(Value::type_name).unwrap_or_default();
        return Err(Error::new(format!("no such overload: {name}({given})")));
    }
    operation.0(&mut args)
}

/// Moves an argument out of the slice.
fn taken<'a>(args: &mut [Value<'a>], at: usize) -> Value<'a> {
    args.get_mut(at).map_or(Value::Null, |arg| std::mem::replace(arg, Value::Null))
}

fn overload<T>() -> Result<T, Error> {
    Err(Error::no_such_overload())
}

fn text_of<'v>(value: Option<&'v Value<'_>>) -> Result<&'v str, Error> {
    value.and_then(Value::as_str).ok_or_else(Error::no_such_overload)
}

fn int_of(value: Option<&Value<'_>>) -> Result<i64, Error> {
    match value {
        Some(Value::Int(value)) => Ok(*value),
        _ => overload(),
    }
}
