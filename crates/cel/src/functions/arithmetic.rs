//! Operators.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Function, overload, taken};
use crate::error::Error;
use crate::eval::{Outcome, extended};
use crate::functions::list::is_comparable;
use crate::functions::timestamp;
use crate::map::Map;
use crate::show;
use crate::value::{List, Value, same_entry};

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "!_" => |args| match args {
            [Value::Bool(value)] => Ok(Value::Bool(!*value)),
            _ => overload(),
        },
        "-_" => |args| match args {
            [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or_else(int_overflow),
            [Value::Double(value)] => Ok(Value::Double(-*value)),
            _ => overload(),
        },
        "_==_" => |args| match args {
            [one, other] => one.equals(other).map(Value::Bool),
            _ => overload(),
        },
        "_!=_" => |args| match args {
            [one, other] => Ok(Value::Bool(!one.equals(other).unwrap_or(false))),
            _ => overload(),
        },
        "_<_" => |args| compared("_<_", args, Ordering::is_lt),
        "_<=_" => |args| compared("_<=_", args, Ordering::is_le),
        "_>_" => |args| compared("_>_", args, Ordering::is_gt),
        "_>=_" => |args| compared("_>=_", args, Ordering::is_ge),
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => |args| divide(args, "division by zero"),
        "_%_" => |args| divide(args, "modulus by zero"),
        "@in" => |args| match args {
            [value, Value::List(list)] => Ok(Value::Bool(list.contains(value))),
            [key, Value::Map(map)] => Ok(Value::Bool(map.find(key).is_some())),
            _ => overload(),
        },
        "cel.@mapInsert" => insert,
        // `Evaluator::call` evaluates it, errors and all.
        "@not_strictly_false" => |_| overload(),
        _ => return None,
    })
}

fn int_overflow() -> Error {
    Error::new("integer overflow")
}

fn uint_overflow() -> Error {
    Error::new("unsigned integer overflow")
}

fn compared<'a>(name: &str, args: &mut [Value<'a>], wanted: fn(Ordering) -> bool) -> Outcome<'a> {
    match args {
        [one, _] if !is_comparable(one) => Err(Error::new(format!("no such overload: {name}"))),
        [one, other] => one.compare(other).map(|order| Value::Bool(wanted(order))),
        _ => overload(),
    }
}

fn add<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(one), Value::Int(other)] => {
            one.checked_add(*other).map(Value::Int).ok_or_else(int_overflow)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            one.checked_add(*other).map(Value::Uint).ok_or_else(uint_overflow)
        }
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(*one + *other)),
        [Value::String(one), Value::String(other)] => Ok(Value::string(format!("{}{}", &**one, &**other))),
        [Value::Bytes(one), Value::Bytes(other)] => {
            Ok(Value::Bytes(one.iter().chain(other.iter()).copied().collect()))
        }
        [Value::List(_), Value::List(_)] => {
            let (Value::List(one), Value::List(other)) = (taken(args, 0), taken(args, 1)) else {
                return overload();
            };
            Ok(Value::List(joined(one, &other)))
        }
        [one, other] => timestamp::add(one, other),
        _ => overload(),
    }
}

/// Concatenates lists. In a list of type `map` or `set`, an entry of `other` replaces the entry of `one` with the same keys.
fn joined<'a>(one: List<'a>, other: &List<'a>) -> List<'a> {
    let Some(keys) = one.schema().and_then(|schema| schema.list_keys()) else { return extended(one, other) };
    let mut entries: Vec<Value<'a>> = one.iter().collect();
    for entry in other.iter() {
        match entries.iter_mut().find(|known| same_entry(known, &entry, keys)) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    List::Made(Arc::new(entries))
}

fn subtract<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(one), Value::Int(other)] => {
            one.checked_sub(*other).map(Value::Int).ok_or_else(int_overflow)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            one.checked_sub(*other).map(Value::Uint).ok_or_else(uint_overflow)
        }
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(*one - *other)),
        [one, other] => timestamp::subtract(one, other),
        _ => overload(),
    }
}

fn multiply<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(one), Value::Int(other)] => {
            one.checked_mul(*other).map(Value::Int).ok_or_else(int_overflow)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            one.checked_mul(*other).map(Value::Uint).ok_or_else(uint_overflow)
        }
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(*one * *other)),
        _ => overload(),
    }
}

/// Division or remainder; the message for a divisor of zero shows which.
fn divide<'a>(args: &mut [Value<'a>], by_zero: &str) -> Outcome<'a> {
    let is_division = by_zero.starts_with("division");
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Error::new(by_zero)),
        [Value::Int(one), Value::Int(other)] => {
            let result = if is_division { one.checked_div(*other) } else { one.checked_rem(*other) };
            result.map(Value::Int).ok_or_else(int_overflow)
        }
        [Value::Uint(one), Value::Uint(other)] => {
            Ok(Value::Uint(if is_division { *one / *other } else { *one % *other }))
        }
        [Value::Double(one), Value::Double(other)] if is_division => Ok(Value::Double(*one / *other)),
        _ => overload(),
    }
}

fn insert<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let entries: Vec<(Value<'a>, Value<'a>)> = match args {
        [Value::Map(_), key, value] => vec![(key.clone(), value.clone())],
        [Value::Map(_), Value::Map(more)] => more.iter().collect(),
        _ => return overload(),
    };
    let Value::Map(map) = taken(args, 0) else { return overload() };
    let mut made = match map {
        Map::Made(made) => made,
        data => {
            let entries = data.iter().filter_map(|(key, value)| Some((key.key()?, value)));
            Arc::new(entries.collect())
        }
    };
    for (key, value) in entries {
        let exists = made.get(&key.key().ok_or_else(Error::no_such_overload)?).is_some()
            || Map::Made(Arc::clone(&made)).find(&key).is_some();
        if exists {
            return Err(Error::new(format!("insert failed: key {} already exists", show::plain(&key))));
        }
        let key = key.key().ok_or_else(Error::no_such_overload)?;
        Arc::make_mut(&mut made).insert(key, value);
    }
    Ok(Value::Map(Map::Made(made)))
}
