//! The functions and type names that every expression may use.

mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use smol_str::SmolStr;

use crate::types::Type;
use crate::unify::Bindings;
use crate::value::Value;

/// One way to call a function.
#[derive(Debug, PartialEq)]
pub(crate) struct Overload {
    /// Whether the first argument is the target: `target.function(…)`.
    pub(crate) is_member: bool,
    args: Vec<Type>,
    result: Type,
    params: Vec<SmolStr>,
}

impl Overload {
    /// The types of its arguments, beginning with the target.
    pub(crate) fn args(&self) -> &[Type] {
        &self.args
    }

    /// The types of arguments and result for one call, with new type variables for the type parameters.
    pub(crate) fn instance(&self, bindings: &mut Bindings) -> (Vec<Type>, Type) {
        if self.params.is_empty() {
            return (self.args.clone(), self.result.clone());
        }
        let opened: Vec<(&SmolStr, Type)> = self.params.iter().map(|name| (name, bindings.fresh())).collect();
        (self.args.iter().map(|arg| put_in(arg, &opened)).collect(), put_in(&self.result, &opened))
    }
}

fn put_in(of: &Type, opened: &[(&SmolStr, Type)]) -> Type {
    match of {
        Type::Param(name) => {
            opened.iter().find(|(known, _)| *known == name).map_or(Type::Dyn, |(_, var)| var.clone())
        }
        _ => of.rebuilt(|part| put_in(part, opened)),
    }
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let overloads =
        |calls: &&'static [&'static str]| calls.iter().filter_map(|call| overload(call)).collect();
    table::FUNCTIONS.iter().map(|(name, calls)| (*name, overloads(calls))).collect()
});

/// The function of this name, with its overloads.
pub(crate) fn function(name: &str) -> Option<(&'static str, &'static [Overload])> {
    FUNCTIONS.get_key_value(name).map(|(name, overloads)| (*name, overloads.as_slice()))
}

/// Whether an overload of a function accepts these values. Of lists and maps only the first element is checked.
pub(crate) fn accepts(name: &str, args: &[Value<'_>]) -> bool {
    function(name).is_none_or(|(_, overloads)| {
        overloads.iter().any(|overload| {
            overload.args.len() == args.len()
                && overload.args.iter().zip(args).all(|(of, arg)| is_of(arg, of))
        })
    })
}

fn is_of(value: &Value<'_>, of: &Type) -> bool {
    match (of, value) {
        (Type::Dyn | Type::Param(_) | Type::Var(_), _) => true,
        (Type::List(element), Value::List(list)) => list.get(0).is_none_or(|first| is_of(&first, element)),
        (Type::Map(key, value), Value::Map(map)) => {
            map.iter().next().is_none_or(|(one, other)| is_of(&one, key) && is_of(&other, value))
        }
        (Type::List(_) | Type::Map(..), _) => false,
        (of, value) => type_value_name(of) == value.type_name(),
    }
}

/// The type of an expression that is the name of a type.
pub(crate) fn type_name(name: &str) -> Option<Type> {
    let named = match name {
        "list" => Type::list(Type::Param("A".into())),
        "map" => Type::map(Type::Param("A".into()), Type::Param("B".into())),
        "type" => Type::Type(None),
        "null_type" => Type::Null,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "optional_type" => Type::optional(Type::Param("V".into())),
        "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint" | "net.IP"
        | "net.CIDR" => simple(name)?,
        _ => return None,
    };
    Some(named.of())
}

/// The name of a type as a value.
pub(crate) fn type_value_name(of: &Type) -> SmolStr {
    match of {
        Type::Null => "null_type".into(),
        Type::Timestamp => "google.protobuf.Timestamp".into(),
        Type::Duration => "google.protobuf.Duration".into(),
        other => {
            let shown = other.to_string();
            shown.split('(').next().unwrap_or(&shown).into()
        }
    }
}

/// Reads `target.(arguments) -> result`, or the same without a target.
fn overload(text: &str) -> Option<Overload> {
    let (call, result) = text.split_once(" -> ")?;
    let (target, rest) = match call.split_once(".(") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, call.strip_prefix('(')?),
    };
    let args: Option<Vec<Type>> =
        target.into_iter().chain(split(rest.strip_suffix(')')?)).map(parsed).collect();
    let (args, result) = (args?, parsed(result)?);
    let mut params = Vec::new();
    args.iter().chain([&result]).for_each(|of| collect_params(of, &mut params));
    Some(Overload { is_member: target.is_some(), args, result, params })
}

fn collect_params(of: &Type, params: &mut Vec<SmolStr>) {
    if let Type::Param(name) = of
        && !params.contains(name)
    {
        params.push(name.clone());
    }
    of.parts().into_iter().for_each(|part| collect_params(part, params));
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    parts
}

fn parsed(text: &str) -> Option<Type> {
    let Some((name, inner)) = text.split_once('(') else { return simple(text) };
    let parts: Option<Vec<Type>> = split(inner.strip_suffix(')')?).into_iter().map(parsed).collect();
    match (name, parts?.as_slice()) {
        ("list", [element]) => Some(Type::list(element.clone())),
        ("map", [key, value]) => Some(Type::map(key.clone(), value.clone())),
        ("type", [of]) => Some(of.clone().of()),
        ("optional_type", [held]) => Some(Type::optional(held.clone())),
        _ => None,
    }
}

fn simple(name: &str) -> Option<Type> {
    Some(match name {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "net.IP" | "net.CIDR" => Type::Opaque(name.into(), [].into()),
        _ if name.starts_with("kubernetes.") => Type::Object(name.into()),
        _ if name.len() == 1 && name.starts_with(|c: char| c.is_ascii_uppercase()) => {
            Type::Param(name.into())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_row_of_the_table_can_be_read_and_names_are_unique() {
        let mut names: Vec<&str> = super::table::FUNCTIONS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for (name, calls) in super::table::FUNCTIONS {
            for call in *calls {
                let read = super::overload(call);
                assert!(read.is_some(), "{name}: {call}");
            }
        }
    }
}
