//! The cost of calls, as cel-go and Kubernetes' libraries count it at run time.

use crate::error::Error;
use crate::library::Overload;
use crate::opaque::Opaque;
use crate::types::Type;
use crate::value::Value;

/// How the cost of a call is computed from the sizes of its arguments and of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    Fixed(u64),
    /// Reading the first argument.
    Read,
    /// Reading the first argument and writing as much.
    ReadAndWrite,
    /// Reading and writing as much as the result has.
    Written,
    /// Matching the first argument against the pattern in the second.
    Pattern,
    /// Matching the second argument against the pattern of a named format.
    NamedFormat,
    Selector,
    /// Visiting everything in the first argument, at any depth.
    Walk,
    /// The number of elements in the second argument.
    Members,
    /// Comparing two values up to the end of the shorter.
    Shorter,
    Equality,
    /// Copying both arguments.
    Both,
    /// Looking for the second argument in the first.
    Search,
    CidrHasIp {
        is_text: bool,
    },
    CidrHasCidr {
        is_text: bool,
    },
    /// A new list with as many elements as the result has.
    NewList,
    Flatten,
    /// Comparing the elements of an argument with each other.
    Pairs(usize),
    Sets(u64),
}

const READ: f64 = 0.1;
const PATTERN: f64 = 0.25;
const NEW_LIST: u64 = 10;
/// The shortest requirement of a selector, in characters.
const REQUIREMENT_LENGTH: f64 = 2.0;
/// A struct for a requirement.
const REQUIREMENT: f64 = 50.0;
/// An authorization check, which calls the authorizer.
const CHECK: u64 = 350_000;

/// How a call of a function is charged. `overload` is the overload that is called, if that is known before the call.
pub(crate) fn call_cost(name: &str, is_member: bool, overload: Option<&Overload>) -> Cost {
    if let Some(cost) = list_cost(name, overload) {
        return cost;
    }
    let arg = |at: usize| overload.and_then(|overload| overload.args().get(at));
    let is_text = |at: usize| arg(at) == Some(&Type::String);
    match name {
        "check" => Cost::Fixed(CHECK),
        "fieldSelector" | "labelSelector" => Cost::Selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Cost::Walk,
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => Cost::Read,
        "ip" if is_member => Cost::Fixed(1),
        "ip" => Cost::Read,
        "replace" | "split" | "ip.isCanonical" => Cost::ReadAndWrite,
        "join" => Cost::Written,
        "find" | "findAll" => Cost::Pattern,
        "matches" if is_member && overload.is_some() => Cost::Pattern,
        "containsIP" => Cost::CidrHasIp { is_text: is_text(1) },
        "containsCIDR" => Cost::CidrHasCidr { is_text: is_text(1) },
        "validate" => Cost::NamedFormat,
        "_==_" => Cost::Equality,
        "_!=_" => Cost::Shorter,
        "startsWith" | "endsWith" | "strings.quote" | "format" => Cost::Read,
        "bytes" if is_text(0) => Cost::Read,
        "string" if arg(0) == Some(&Type::Bytes) => Cost::Read,
        "@in" if matches!(arg(1), Some(Type::List(_))) => Cost::Members,
        "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(arg(0), Some(Type::String | Type::Bytes)) => {
            Cost::Shorter
        }
        "_+_" if matches!(arg(0), Some(Type::String | Type::Bytes)) => Cost::Both,
        "contains" => Cost::Search,
        _ => Cost::Fixed(1),
    }
}

fn list_cost(name: &str, overload: Option<&Overload>) -> Option<Cost> {
    overload?;
    Some(match name {
        "slice" | "lists.range" | "reverse" => Cost::NewList,
        "flatten" => Cost::Flatten,
        "distinct" | "sort" => Cost::Pairs(0),
        "@sortByAssociatedKeys" => Cost::Pairs(1),
        "sets.contains" | "sets.intersects" => Cost::Sets(1),
        "sets.equivalent" => Cost::Sets(2),
        _ => return None,
    })
}

fn part(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

impl Cost {
    /// The cost, if the arguments are enough to compute it.
    pub(crate) fn before(self, args: &[Value<'_>]) -> Option<u64> {
        match self {
            Self::Written | Self::NewList if args.first().is_some_and(|arg| matches!(arg, Value::Int(_))) => {
                let Some(Value::Int(count)) = args.first() else { return None };
                Some(u64::try_from(*count).unwrap_or_default().saturating_add(1 + NEW_LIST))
            }
            Self::Written | Self::NewList => None,
            _ => Some(self.count(&args.iter().map(Some).collect::<Vec<_>>(), None)),
        }
    }

    /// The cost of a call that was made. `known` is the result of [`Self::before`].
    pub(crate) fn of<'a>(
        self,
        known: Option<u64>,
        args: &[Value<'a>],
        result: &Result<Value<'a>, Error>,
    ) -> u64 {
        match (known, self) {
            (Some(known), Self::NewList) if result.is_ok() => known,
            (Some(known), cost) if cost != Self::NewList => known,
            _ => self.count(&args.iter().map(Some).collect::<Vec<_>>(), result.as_ref().ok()),
        }
    }

    /// The cost of a call that was not made because some arguments are errors (`None`).
    pub(crate) fn of_failed(self, args: &[Option<Value<'_>>]) -> u64 {
        self.count(&args.iter().map(Option::as_ref).collect::<Vec<_>>(), None)
    }

    fn count(self, args: &[Option<&Value<'_>>], result: Option<&Value<'_>>) -> u64 {
        let value = |at: usize| args.get(at).copied().flatten();
        let size = |at: usize| value(at).map_or(1, Value::size);
        match self {
            Self::Fixed(cost) => cost,
            Self::Read => part(size(0), READ),
            Self::ReadAndWrite => part(size(0), 2.0 * READ),
            Self::Written => part(result.map_or(1, Value::size), 2.0 * READ),
            Self::Pattern => part(size(0) + 1, READ) * part(size(1), PATTERN),
            Self::NamedFormat => match value(0) {
                Some(Value::Opaque(Opaque::Format(format))) => {
                    part(size(1) + 1, READ) * part(format.pattern_size, PATTERN)
                }
                _ => 1,
            },
            Self::Selector => {
                // The parser allocates a list, and a struct for each requirement.
                NEW_LIST + part(size(1), READ) + part(part(size(1), 1.0 / REQUIREMENT_LENGTH), REQUIREMENT)
            }
            Self::Walk => value(0).map_or(1, walk),
            Self::Members => size(1),
            Self::Shorter => part(size(0).min(size(1)), READ),
            Self::Equality => match value(0) {
                Some(Value::Opaque(_)) => 1,
                _ => part(size(0).min(size(1)), READ),
            },
            Self::Both => part(size(0) + size(1), READ),
            Self::Search => part(size(0), READ) * part(size(1), READ),
            Self::CidrHasIp { is_text } => {
                part(2 * size(0), READ) + if is_text { part(size(1), READ) } else { 0 }
            }
            Self::CidrHasCidr { is_text } => {
                let text = if is_text { part(size(1), READ) } else { 0 };
                part(2 * size(0), READ) + part(size(0), READ) + 1 + text
            }
            Self::NewList => result.map_or(1, Value::size) + 1 + NEW_LIST,
            Self::Flatten => {
                let depth = match value(1) {
                    Some(Value::Int(depth)) => *depth,
                    _ => 1,
                };
                let walked = i64::try_from(size(0)).unwrap_or(i64::MAX).saturating_mul(depth);
                (1 + NEW_LIST).saturating_add_signed(walked)
            }
            Self::Pairs(at) => {
                let first = match value(at) {
                    Some(Value::List(list)) => list.get(0),
                    _ => None,
                };
                let is_text = matches!(first, Some(Value::String(_) | Value::Bytes(_)));
                let factor = if is_text { 2.0 + READ } else { 2.0 };
                (size(at).saturating_mul(size(at)) as f64 * factor) as u64 + 1 + NEW_LIST
            }
            Self::Sets(factor) => size(0).saturating_mul(size(1)).saturating_mul(factor) + 1,
        }
    }
}

/// The size of everything in a value; a text counts a tenth of its bytes.
fn walk(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * READ) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * READ) as u64,
        Value::List(list) => list.iter().map(|element| walk(&element)).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| walk(&key) + walk(&value)).sum(),
        _ => 1,
    }
}
