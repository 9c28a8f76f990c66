//! Values that may be absent.

use super::{Function, overload, taken};
use crate::error::Error;
use crate::value::{List, Value};

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "optional.none" => |_| Ok(Value::Optional(None)),
        "optional.of" => |args| Ok(Value::some(taken(args, 0))),
        "optional.ofNonZeroValue" => |args| match taken(args, 0) {
            zero if zero.is_zero() => Ok(Value::Optional(None)),
            value => Ok(Value::some(value)),
        },
        "hasValue" => |args| match args {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => overload(),
        },
        "value" => |args| match args {
            [Value::Optional(Some(value))] => Ok(Value::clone(value)),
            [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
            _ => overload(),
        },
        // `Evaluator::alternative` evaluates these.
        "or" | "orValue" => |_| overload(),
        "first" => |args| match args {
            [Value::List(list)] => Ok(list.get(0).map_or(Value::Optional(None), Value::some)),
            _ => overload(),
        },
        "last" => |args| match args {
            [Value::List(list)] => {
                let last = list.len().checked_sub(1).and_then(|at| list.get(at));
                Ok(last.map_or(Value::Optional(None), Value::some))
            }
            _ => overload(),
        },
        "optional.unwrap" | "unwrapOpt" => |args| match args {
            [Value::List(list)] => present(list),
            _ => overload(),
        },
        _ => return None,
    })
}

fn present<'a>(list: &List<'a>) -> Result<Value<'a>, Error> {
    let mut values = Vec::new();
    for element in list.iter() {
        match element {
            Value::Optional(Some(value)) => values.push(Value::clone(&value)),
            Value::Optional(None) => {}
            other => {
                let shown = crate::show::plain(&other);
                return Err(Error::new(format!("value {shown} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}
