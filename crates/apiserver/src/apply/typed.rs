//! Traverses objects by type: lists their fields, compares them, merges a configuration into an object.

use serde_json::{Map, Value};

use super::set::Set;
use crate::kinds::schema::{self, ListKind, Shape, Type};
use crate::resource::Resource;

/// What is known about the type of a value.
#[derive(Clone, Copy)]
pub(super) enum Typed<'a> {
    /// A struct of a built-in kind.
    Struct(&'a Type),
    /// A value in a field of a built-in struct.
    Field { shape: &'a Shape, list: &'a ListKind, atomic: Option<bool> },
    /// A value described by a custom resource's schema.
    Custom(&'a Value),
    /// An unknown type: maps are merged, lists are atomic.
    Unknown,
}

/// The granularity at which managers own a value.
enum Division<'a> {
    Fields,
    /// Item by item, by these keys.
    Keyed(Vec<&'a str>),
    /// Item by item, by value.
    Set,
    Whole,
}

static ATOMIC: ListKind = ListKind::Atomic;

impl<'a> Typed<'a> {
    /// The type of a resource's objects.
    pub(super) fn of(resource: &'a Resource) -> Self {
        match (resource.shape, &resource.custom) {
            (Some(kind), _) => Typed::Struct(kind),
            (None, Some(custom)) => Typed::Custom(&custom.schema),
            (None, None) => Typed::Unknown,
        }
    }

    fn division(&self, value: &Value) -> Division<'a> {
        match (*self, value) {
            (Typed::Struct(kind), Value::Object(_)) if kind.atomic => Division::Whole,
            (Typed::Field { shape: Shape::Object(id), atomic, .. }, Value::Object(_)) => {
                match atomic.unwrap_or(schema::builtin().get(*id).atomic) {
                    true => Division::Whole,
                    false => Division::Fields,
                }
            }
            (Typed::Field { atomic: Some(true), .. }, Value::Object(_)) => Division::Whole,
            (Typed::Field { list, .. }, Value::Array(_)) => match list {
                ListKind::Map(keys) => Division::Keyed(keys.to_vec()),
                ListKind::Set => Division::Set,
                ListKind::Atomic => Division::Whole,
            },
            (Typed::Custom(rules), Value::Object(_)) if rules["x-kubernetes-map-type"] == "atomic" => {
                Division::Whole
            }
            (Typed::Custom(rules), Value::Array(_)) => match rules["x-kubernetes-list-type"].as_str() {
                Some("map") => {
                    let keys = rules["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                    Division::Keyed(keys.filter_map(Value::as_str).collect())
                }
                Some("set") => Division::Set,
                _ => Division::Whole,
            },
            (_, Value::Object(_)) => Division::Fields,
            _ => Division::Whole,
        }
    }

    fn child(&self, name: &str) -> Typed<'a> {
        let of_struct = |kind: &'a Type| match kind.field(name) {
            Some(field) => Typed::Field { shape: &field.shape, list: &field.list, atomic: field.atomic },
            None => Typed::Unknown,
        };
        match *self {
            Typed::Struct(kind) => of_struct(kind),
            Typed::Field { shape: Shape::Object(id), .. } => of_struct(schema::builtin().get(*id)),
            Typed::Field { shape: Shape::Map(inner), .. } => {
                Typed::Field { shape: inner, list: &ATOMIC, atomic: None }
            }
            Typed::Custom(rules) => {
                let inner = rules["properties"].get(name).or(rules.get("additionalProperties"));
                inner.map_or(Typed::Unknown, Typed::Custom)
            }
            _ => Typed::Unknown,
        }
    }

    /// Whether it is a map with any keys.
    fn is_map(&self) -> bool {
        match self {
            Typed::Field { shape: Shape::Map(_), .. } => true,
            Typed::Custom(rules) => rules.get("properties").is_none(),
            _ => false,
        }
    }

    /// Whether an object of it may have a field.
    fn knows(&self, name: &str) -> bool {
        let of_struct = |kind: &Type| kind.field(name).is_some();
        match *self {
            Typed::Struct(kind) => of_struct(kind),
            Typed::Field { shape: Shape::Object(id), .. } => of_struct(schema::builtin().get(*id)),
            Typed::Custom(rules) => {
                let is_open = rules.get("additionalProperties").is_some_and(|more| more != false)
                    || rules["x-kubernetes-preserve-unknown-fields"] == true
                    || rules.get("properties").is_none();
                is_open || rules["properties"].get(name).is_some()
            }
            _ => true,
        }
    }

    fn item(&self) -> Typed<'a> {
        match *self {
            Typed::Field { shape: Shape::List(inner), .. } => {
                Typed::Field { shape: inner, list: &ATOMIC, atomic: None }
            }
            Typed::Custom(rules) => rules.get("items").map_or(Typed::Unknown, Typed::Custom),
            _ => Typed::Unknown,
        }
    }

    /// The declared default of a field of a list's items, for keys that were left out (`protocol`).
    fn key_default(&self, key: &str) -> Option<Value> {
        match self.item() {
            Typed::Field { shape: Shape::Object(id), .. } => {
                let text = schema::builtin().get(*id).field(key)?.default?;
                serde_json::from_str(text).ok()
            }
            Typed::Custom(rules) => rules["properties"][key].get("default").cloned(),
            _ => None,
        }
    }

    fn step_of(&self, item: &Value, keys: &[&str]) -> String {
        let id: Map<String, Value> = keys
            .iter()
            .filter_map(|key| {
                let value =
                    item.get(*key).filter(|v| !v.is_null()).cloned().or_else(|| self.key_default(key))?;
                Some(((*key).to_owned(), value))
            })
            .collect();
        format!("k:{}", Value::Object(id))
    }

    /// The items of a list with their path elements.
    fn steps<'v>(&self, items: &'v [Value], division: &Division<'_>) -> Vec<(String, &'v Value)> {
        let step = |item: &Value| match division {
            Division::Keyed(keys) => self.step_of(item, keys),
            _ => format!("v:{item}"),
        };
        items.iter().map(|item| (step(item), item)).collect()
    }
}

/// The fields that are set in a configuration.
pub(super) fn fields_of(value: &Value, typed: Typed<'_>) -> Set {
    let division = typed.division(value);
    match (&division, value) {
        (Division::Fields, Value::Object(map)) if !map.is_empty() => Set {
            here: false,
            below: map
                .iter()
                .map(|(name, v)| (format!("f:{name}"), fields_of(v, typed.child(name))))
                .collect(),
        },
        (Division::Keyed(_) | Division::Set, Value::Array(items)) if !items.is_empty() => {
            let below = typed.steps(items, &division).into_iter().map(|(step, item)| {
                let mut inner = match division {
                    Division::Keyed(_) => fields_of(item, typed.item()),
                    _ => Set::default(),
                };
                inner.here = true;
                (step, inner)
            });
            Set { here: false, below: below.collect() }
        }
        _ => Set::leaf(),
    }
}

/// The paths at which a configuration sets lists, maps or structs that cannot be set in part.
pub(super) fn wholes(value: &Value, typed: Typed<'_>, path: &str, found: &mut Vec<String>) {
    let is_whole = matches!(typed.division(value), Division::Whole);
    match value {
        Value::Object(map) => {
            if is_whole {
                found.push(path.to_owned());
            }
            for (name, inner) in map {
                // Values of plain maps are not looked into.
                if !matches!(typed.child(name), Typed::Unknown) && !typed.is_map() {
                    wholes(inner, typed.child(name), &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            if is_whole {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                wholes(item, typed.item(), &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// A field that the type does not have, or a value of another type than the field's, if there is one.
pub(super) fn mistyped(value: &Value, typed: Typed<'_>, path: &str) -> Option<String> {
    match value {
        Value::Object(map) => map.iter().find_map(|(name, inner)| {
            let here = format!("{path}.{name}");
            match typed.knows(name) {
                true => mistyped(inner, typed.child(name), &here),
                false => Some(format!("{here}: field not declared in schema")),
            }
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| mistyped(item, typed.item(), &format!("{path}[{at}]"))),
        _ => None,
    }
}

/// What differs between two states.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) changed: Set,
    pub(super) removed: Set,
}

impl Difference {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    fn put(&mut self, step: &str, inner: Difference) {
        if !inner.changed.is_empty() {
            self.changed.below.insert(step.to_owned(), inner.changed);
        }
        if !inner.removed.is_empty() {
            self.removed.below.insert(step.to_owned(), inner.removed);
        }
    }
}

/// All paths of a value that a manager has added, including its own.
fn whole(value: &Value, typed: Typed<'_>) -> Set {
    let mut set = fields_of(value, typed);
    set.here = true;
    for (step, child) in &mut set.below {
        if let (Some(name), Value::Object(map)) = (step.strip_prefix("f:"), value)
            && let Some(inner) = map.get(name)
        {
            *child = whole(inner, typed.child(name));
        }
    }
    set
}

pub(super) fn compare(old: Option<&Value>, new: Option<&Value>, typed: Typed<'_>) -> Difference {
    let (old, new) = match (old.filter(|v| !v.is_null()), new.filter(|v| !v.is_null())) {
        (None, None) => return Difference::default(),
        (None, Some(new)) => return Difference { changed: whole(new, typed), removed: Set::default() },
        (Some(old), None) => return Difference { changed: Set::default(), removed: whole(old, typed) },
        (Some(old), Some(new)) if old == new => return Difference::default(),
        (Some(old), Some(new)) => (old, new),
    };
    let division = typed.division(new);
    let mut out = Difference::default();
    match (&division, old, new) {
        (Division::Fields, Value::Object(before), Value::Object(after)) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                out.put(&format!("f:{name}"), compare(before.get(name), after.get(name), typed.child(name)));
            }
        }
        (Division::Keyed(_) | Division::Set, Value::Array(before), Value::Array(after)) => {
            let before = typed.steps(before, &division);
            let after = typed.steps(after, &division);
            let find = |list: &[(String, &Value)], step: &str| -> Option<Value> {
                list.iter().find(|(s, _)| s == step).map(|(_, item)| (*item).clone())
            };
            for (step, item) in &after {
                out.put(step, compare(find(&before, step).as_ref(), Some(item), typed.item()));
            }
            for (step, item) in before.iter().filter(|(step, _)| find(&after, step).is_none()) {
                out.put(step, compare(Some(item), None, typed.item()));
            }
        }
        _ => out.changed = Set::leaf(),
    }
    out
}

/// The object with a configuration merged into it.
pub(super) fn merge(live: &Value, config: &Value, typed: Typed<'_>) -> Value {
    let division = typed.division(config);
    match (&division, live, config) {
        (Division::Fields, Value::Object(live), Value::Object(config)) => {
            let mut out = live.clone();
            for (name, value) in config {
                let merged = match live.get(name) {
                    Some(before) => merge(before, value, typed.child(name)),
                    None => value.clone(),
                };
                out.insert(name.clone(), merged);
            }
            Value::Object(out)
        }
        (Division::Keyed(_) | Division::Set, Value::Array(live), Value::Array(config)) => {
            let before = typed.steps(live, &division);
            let wanted = typed.steps(config, &division);
            let mut out: Vec<Value> = Vec::new();
            // Applied items are in the applied order; the others stay before the next item that both lists have.
            let mut rest = before.iter().peekable();
            for (step, item) in &wanted {
                let place = before.iter().position(|(s, _)| s == step);
                if place.is_some() {
                    while let Some((other, value)) = rest.next_if(|(s, _)| s != step) {
                        if !wanted.iter().any(|(s, _)| s == other) {
                            out.push((*value).clone());
                        }
                    }
                    rest.next();
                }
                out.push(match place {
                    Some(at) => merge(before[at].1, item, typed.item()),
                    None => (*item).clone(),
                });
            }
            out.extend(
                rest.filter(|(s, _)| !wanted.iter().any(|(w, _)| w == s)).map(|(_, value)| (*value).clone()),
            );
            Value::Array(out)
        }
        _ => config.clone(),
    }
}

/// Removes the paths of a set from an object, unless something at or below them is in `owned`.
pub(super) fn remove(value: &mut Value, set: &Set, owned: Option<&Set>, typed: Typed<'_>) {
    let division = typed.division(value);
    let owner = |step: &str| owned.and_then(|owned| owned.below.get(step)).filter(|set| !set.is_empty());
    match (&division, value) {
        (Division::Fields, Value::Object(map)) => {
            for (step, inner) in &set.below {
                let Some(name) = step.strip_prefix("f:") else { continue };
                let gone = match map.get_mut(name) {
                    Some(_) if inner.here && owner(step).is_none() => true,
                    Some(child) => {
                        let was_nothing = is_nothing(child);
                        remove(child, inner, owner(step), typed.child(name));
                        // A value that becomes empty is removed even if it is owned; one that was empty stays.
                        is_nothing(child) && (!was_nothing || owner(step).is_none())
                    }
                    None => false,
                };
                if gone {
                    map.remove(name);
                }
            }
        }
        (Division::Keyed(_) | Division::Set, Value::Array(items)) => {
            items.retain_mut(|item| {
                let step = typed.steps(std::slice::from_ref(item), &division).remove(0).0;
                match set.below.get(&step) {
                    Some(inner) if inner.here && owner(&step).is_none() => false,
                    Some(inner) => {
                        remove(item, inner, owner(&step), typed.item());
                        true
                    }
                    None => true,
                }
            });
        }
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
