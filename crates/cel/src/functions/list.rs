//! Lists and sets.

use std::cmp::Ordering;

use super::{Function, overload, taken};
use crate::error::Error;
use crate::eval::Outcome;
use crate::go;
use crate::value::{List, Value};

pub(super) fn operation(name: &str) -> Option<Function> {
    Some(match name {
        "size" => |args| match args {
            [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
                Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => overload(),
        },
        "isSorted" => |args| match args {
            [Value::List(list)] => is_sorted(list),
            _ => overload(),
        },
        "sum" => |args| match args {
            [Value::List(list)] => sum(list),
            _ => overload(),
        },
        "max" => |args| match args {
            [Value::List(list)] => extreme(list, "max", Ordering::Less),
            _ => overload(),
        },
        "min" => |args| match args {
            [Value::List(list)] => extreme(list, "min", Ordering::Greater),
            _ => overload(),
        },
        "slice" => slice,
        "flatten" => flatten,
        "sort" => |args| match args {
            [Value::List(list)] => sorted(list, list),
            _ => overload(),
        },
        "@sortByAssociatedKeys" => |args| match args {
            [Value::List(list), Value::List(keys)] => sorted(list, keys),
            _ => overload(),
        },
        "lists.range" => |args| match args {
            [Value::Int(count)] => Ok(Value::list((0..*count).map(Value::Int).collect())),
            _ => overload(),
        },
        "reverse" => |args| match args {
            [Value::List(list)] => {
                let mut elements: Vec<_> = list.iter().collect();
                elements.reverse();
                Ok(Value::list(elements))
            }
            _ => overload(),
        },
        "distinct" => |args| match args {
            [Value::List(list)] => {
                let mut seen: Vec<Value<'_>> = Vec::new();
                for element in list.iter() {
                    if !seen.iter().any(|known| element.equals(known).unwrap_or(false)) {
                        seen.push(element);
                    }
                }
                Ok(Value::list(seen))
            }
            _ => overload(),
        },
        "sets.contains" => |args| match args {
            [Value::List(list), Value::List(part)] => Ok(Value::Bool(holds(list, part))),
            _ => overload(),
        },
        "sets.equivalent" => |args| match args {
            [Value::List(one), Value::List(other)] => Ok(Value::Bool(holds(one, other) && holds(other, one))),
            _ => overload(),
        },
        "sets.intersects" => |args| match args {
            [Value::List(one), Value::List(other)] => {
                Ok(Value::Bool(one.iter().any(|element| other.contains(&element))))
            }
            _ => overload(),
        },
        _ => return None,
    })
}

/// The index as an integer, from a number of any type.
pub(crate) fn index(by: &Value<'_>) -> Result<i64, Error> {
    let unsupported = |shown: String| Error::new(format!("unsupported index value {shown} in list"));
    match by {
        Value::Int(at) => Ok(*at),
        Value::Uint(at) => i64::try_from(*at).map_err(|_| unsupported(at.to_string())),
        Value::Double(at) if at.fract() == 0.0 && at.abs() < i64::MAX as f64 => Ok(*at as i64),
        Value::Double(at) => Err(unsupported(go::general(*at))),
        other => Err(Error::new(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

fn holds<'a>(list: &List<'a>, part: &List<'a>) -> bool {
    part.iter().all(|element| list.contains(&element))
}

pub(super) fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)
    )
}

fn is_sorted<'a>(list: &List<'a>) -> Outcome<'a> {
    let mut before: Option<Value<'a>> = None;
    for element in list.iter() {
        if !is_comparable(&element) {
            return overload();
        }
        let is_out_of_order =
            before.is_some_and(|before| before.compare(&element).is_ok_and(Ordering::is_gt));
        if is_out_of_order {
            return Ok(Value::Bool(false));
        }
        before = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(list: &List<'a>) -> Outcome<'a> {
    let add = crate::functions::operation("_+_").ok_or_else(Error::no_such_overload)?;
    let mut elements = list.iter();
    let Some(mut total) = elements.next() else { return Ok(Value::Int(0)) };
    for element in elements {
        total = add.0(&mut [total, element])?;
    }
    Ok(total)
}

fn extreme<'a>(list: &List<'a>, name: &str, replaced: Ordering) -> Outcome<'a> {
    let mut best: Option<Value<'a>> = None;
    for element in list.iter() {
        if !is_comparable(&element) {
            return overload();
        }
        let is_better = match &best {
            Some(best) => best.compare(&element).is_ok_and(|order| order == replaced),
            None => true,
        };
        if is_better {
            best = Some(element);
        }
    }
    best.ok_or_else(|| Error::new(format!("{name} called on empty list")))
}

/// The first or last position of an element; -1 if it is not in the list.
pub(super) fn position<'a>(list: &List<'a>, wanted: &Value<'a>, from_end: bool) -> i64 {
    let is_it = |element: Value<'a>| element.equals(wanted).unwrap_or(false);
    let mut places = 0..list.len();
    let found = match from_end {
        false => places.find(|at| list.get(*at).is_some_and(is_it)),
        true => places.rfind(|at| list.get(*at).is_some_and(is_it)),
    };
    found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
}

fn slice<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(from), Value::Int(to)] = args else { return overload() };
    let (from, to, len) = (*from, *to, list.len());
    let cannot = |why: String| Err(Error::new(format!("cannot slice({from}, {to}), {why}")));
    if from < 0 || to < 0 {
        return cannot("negative indexes not supported".to_owned());
    }
    if from > to {
        return cannot("start index must be less than or equal to end index".to_owned());
    }
    if i64::try_from(len).unwrap_or(i64::MAX) < to {
        return cannot(format!("list is length {len}"));
    }
    let (from, count) =
        (usize::try_from(from).unwrap_or_default(), usize::try_from(to - from).unwrap_or_default());
    Ok(Value::list(list.iter().skip(from).take(count).collect()))
}

fn flatten<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let (list, levels) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(levels)] => (list, *levels),
        _ => return overload(),
    };
    if levels < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, levels, &mut flat);
    Ok(Value::list(flat))
}

fn flatten_into<'a>(list: &List<'a>, levels: i64, flat: &mut Vec<Value<'a>>) {
    for element in list.iter() {
        match element {
            Value::List(inner) if levels > 0 => flatten_into(&inner, levels - 1, flat),
            other => flat.push(other),
        }
    }
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Outcome<'a> {
    if list.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
    let Some((first, _)) = pairs.first() else { return Ok(Value::list(vec![])) };
    if !is_comparable(first) {
        return Err(Error::new("list elements must be comparable"));
    }
    let of = std::mem::discriminant(first);
    if pairs.len() > 1 && pairs.iter().any(|(key, _)| std::mem::discriminant(key) != of) {
        return Err(Error::new("list elements must have the same type"));
    }
    pairs.sort_by(|(one, _), (other, _)| one.compare(other).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, element)| element).collect()))
}

/// The two arguments, moved out of the slice.
pub(super) fn list_and_element<'a>(args: &mut [Value<'a>]) -> Option<(List<'a>, Value<'a>)> {
    match (taken(args, 0), taken(args, 1)) {
        (Value::List(list), element) => Some((list, element)),
        _ => None,
    }
}
