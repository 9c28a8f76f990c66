//! The columns and cells of `kubectl get` for every kind, as tables. Cells that are not simply the value at a path are functions.

mod cluster;
mod network;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use cluster::*;
pub(super) use network::*;
pub(super) use storage::*;
pub(super) use workloads::*;

use super::json::Json;
use crate::registry::{Column, age, human_duration};

/// The columns of a kind, with the source of their cells.
pub(super) struct Printer {
    pub(super) columns: &'static [Column],
    pub(super) cells: &'static [Cell],
}

/// Where the value of a cell comes from.
#[derive(Clone, Copy)]
pub(super) enum Cell {
    /// `metadata.name`.
    Name,
    Age,
    Created,
    /// Text at a path, or the empty text.
    Text(&'static str),
    /// Text at a path, or the given word.
    TextOr(&'static str, &'static str),
    /// A number at a path, or 0.
    Int(&'static str),
    /// A boolean at a path, or false.
    Flag(&'static str),
    /// The number of entries of a list or map.
    Count(&'static str),
    /// The texts in a list, joined by commas.
    Joined(&'static str),
    /// The names of the containers in the list at a path.
    Containers(&'static str),
    Images(&'static str),
    /// A label selector in its textual form.
    Selector(&'static str),
    /// A map of labels in textual form.
    Labels(&'static str),
    /// A number at a path, or the given word.
    IntOr(&'static str, &'static str),
    /// A number that is computed.
    Number(fn(&Value) -> i64),
    With(fn(&Value, Timestamp) -> String),
}

impl Printer {
    /// The cells of one object.
    pub(super) fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.cells.iter().map(|cell| cell.value(object, now)).collect()
    }
}

impl Cell {
    fn value(self, object: &Value, now: Timestamp) -> Value {
        match self {
            Cell::Name => object.at("metadata.name").clone(),
            Cell::Age => age(object, now).into(),
            Cell::Created => object.at("metadata.creationTimestamp").clone(),
            Cell::Text(path) => object.text(path).into(),
            Cell::TextOr(path, word) => object.at(path).as_str().unwrap_or(word).into(),
            Cell::Int(path) => object.int(path).unwrap_or(0).into(),
            Cell::Flag(path) => object.flag(path).into(),
            Cell::Count(path) => match object.at(path) {
                Value::Array(list) => list.len().into(),
                Value::Object(map) => map.len().into(),
                _ => 0.into(),
            },
            Cell::Joined(path) => join(object.items(path).iter().filter_map(Value::as_str)).into(),
            Cell::Containers(path) => join(object.items(path).iter().map(|c| c.text("name"))).into(),
            Cell::Images(path) => join(object.items(path).iter().map(|c| c.text("image"))).into(),
            Cell::Selector(path) => selector(object.at(path)).into(),
            Cell::Labels(path) => labels(object.at(path)).into(),
            Cell::IntOr(path, word) => object.int(path).map_or(Value::from(word), Value::from),
            Cell::Number(function) => function(object).into(),
            Cell::With(function) => function(object, now).into(),
        }
    }
}

pub(super) const NAME: Column = Column { format: "name", ..Column::new("Name", "string") };
pub(super) const AGE: Column = text("Age");

pub(super) const fn text(name: &'static str) -> Column {
    Column::new(name, "string")
}

/// A column of whole numbers.
pub(super) const fn int(name: &'static str) -> Column {
    Column::new(name, "integer")
}

/// A column of booleans.
pub(super) const fn flag(name: &'static str) -> Column {
    Column::new(name, "boolean")
}

/// A text column that only `-o wide` shows.
pub(super) const fn wide(name: &'static str) -> Column {
    Column::wide(name, "string")
}

/// Kinds with the columns name and age.
pub(super) const NAME_AND_AGE: Printer = Printer { columns: &[NAME, AGE], cells: &[Cell::Name, Cell::Age] };

/// Kinds with the columns name and creation time.
pub(super) const NAME_AND_CREATED: Printer =
    Printer { columns: &[NAME, Column::new("Created At", "date")], cells: &[Cell::Name, Cell::Created] };

fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// The first `max` items, and how many more there are.
fn first_of(items: &[String], max: usize, separator: &str) -> String {
    match items.len() {
        n if n > max => format!("{} + {} more...", items[..max].join(separator), n - max),
        _ => items.join(separator),
    }
}

/// The time since then, `<unknown>` without a time.
fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.as_second() - then.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// A map of labels as `a=b,c=d`; `<none>` when empty.
fn labels(map: &Value) -> String {
    match map.as_object() {
        Some(map) if !map.is_empty() => {
            let pairs = map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
            pairs.collect::<Vec<_>>().join(",")
        }
        _ => "<none>".to_owned(),
    }
}

/// A label selector as `a=b,c in (x,y),!d`, sorted by key; `<none>` when empty or absent.
fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector.map("matchLabels").into_iter().flatten() {
        parts.push((key.clone(), format!("{key}={}", value.as_str().unwrap_or(""))));
    }
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        let mut values: Vec<&str> = expression.items("values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match expression.text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => "<error>".to_owned(),
        };
        parts.push((key.to_owned(), part));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

/// Text that must not be empty.
fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}
