//! The messages of the built-in kinds: field numbers, JSON names and shapes, from `schema.txt`.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// One message of the schema.
#[derive(Debug)]
pub struct Message {
    /// In the order of Go's JSON.
    pub(super) fields: Box<[Field]>,
    /// The position of the field with each number, plus one; zero for none.
    positions: Box<[u8]>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// The name in JSON; empty for a message whose fields are inlined.
    pub(super) name: &'static str,
    pub(super) number: u16,
    /// The index of its message, if it is one.
    message: u16,
    pub(super) shape: Shape,
    pub(super) count: Count,
    /// Whether JSON omits it if it is empty. Go never omits a message for that reason.
    pub(super) omit_empty: bool,
    /// Whether JSON omits it if it is the zero value.
    pub(super) omit_zero: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// Base64 in JSON.
    Bytes,
    Int,
    Bool,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON inside a message.
    Raw,
    /// A list of texts that is a message of its own.
    Texts,
    Message,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// A value that always exists: if it is not on the wire, it is zero.
    One,
    /// A pointer: absent or present, also with a zero value.
    Optional,
    List,
    Map,
}

impl Message {
    /// The message of a kind, such as `("v1", "Pod")` or `("apps/v1", "Deployment")`.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
        let table = &*TABLE;
        let at = table.kinds.binary_search_by(|(key, _)| key.cmp(&(api_version, kind))).ok()?;
        table.messages.get(usize::from(table.kinds.get(at)?.1))
    }

    pub(super) fn position(&self, number: u32) -> Option<u8> {
        self.positions.get(usize::try_from(number).ok()?)?.checked_sub(1)
    }

    /// The fields in the order of their numbers.
    pub(super) fn by_number(&self) -> impl Iterator<Item = &Field> {
        let positions = self.positions.iter().filter_map(|position| position.checked_sub(1));
        positions.filter_map(|position| self.fields.get(usize::from(position)))
    }

    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.fields.get(usize::from(self.position(number)?))
    }
}

impl Field {
    /// Its message.
    pub(super) fn message(&self) -> super::wire::Result<&'static Message> {
        let message = TABLE.messages.get(usize::from(self.message));
        message.ok_or_else(|| super::wire::error("a message is not in the schema"))
    }

    /// Whether JSON has the fields of its message in its place.
    pub(super) fn is_inline(&self) -> bool {
        self.name.is_empty()
    }
}

struct Table {
    /// Sorted by apiVersion and kind.
    kinds: Box<[((&'static str, &'static str), u16)]>,
    messages: Box<[Message]>,
}

const SCHEMA: &str = include_str!("schema.txt");

static TABLE: LazyLock<Table> = LazyLock::new(|| parse(SCHEMA));

/// Leaves out lines that it does not understand; a test checks that there are none.
fn parse(text: &'static str) -> Table {
    let names = text.lines().filter_map(|line| line.strip_prefix("type ")).zip(0..);
    let names: FxHashMap<&str, u16> = names.collect();
    let mut kinds = Vec::new();
    let mut messages: Vec<Vec<Field>> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("kind"), Some(version), Some(kind), Some(name)) => {
                kinds.extend(names.get(name).map(|at| ((version, kind), *at)));
            }
            (Some("type"), Some(_), None, None) => messages.push(Vec::new()),
            (Some(number), Some(name), Some(shape), None) => {
                let message = messages.last_mut();
                message.into_iter().for_each(|message| message.extend(field(number, name, shape, &names)));
            }
            _ => {}
        }
    }
    kinds.sort_unstable();
    Table { kinds: kinds.into(), messages: messages.into_iter().map(message).collect() }
}

fn message(fields: Vec<Field>) -> Message {
    let highest = fields.iter().map(|field| field.number).max().unwrap_or(0);
    let mut positions = vec![0; usize::from(highest) + 1];
    for (field, at) in fields.iter().zip(1..) {
        if let Some(position) = positions.get_mut(usize::from(field.number)) {
            *position = at;
        }
    }
    Message { fields: fields.into(), positions: positions.into() }
}

fn field(number: &str, name: &'static str, shape: &str, messages: &FxHashMap<&str, u16>) -> Option<Field> {
    let flags = name.trim_start_matches(|c| !matches!(c, '?' | '!'));
    let (omit_empty, omit_zero) = (flags.contains('?'), flags.contains('!'));
    let name = name.trim_end_matches(['?', '!']);
    let name = if name == "~" { "" } else { name };
    let (count, shape) = match shape.split_at_checked(2) {
        Some(("[]", shape)) => (Count::List, shape),
        Some(("{}", shape)) => (Count::Map, shape),
        _ => shape.strip_prefix('*').map_or((Count::One, shape), |shape| (Count::Optional, shape)),
    };
    let mut message = u16::MAX;
    let shape = match shape {
        "string" => Shape::Text,
        "bytes" => Shape::Bytes,
        "int" => Shape::Int,
        "bool" => Shape::Bool,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "quantity" => Shape::Quantity,
        "intstr" => Shape::IntOrString,
        "raw" => Shape::Raw,
        "items:string" => Shape::Texts,
        name => {
            message = *messages.get(name)?;
            Shape::Message
        }
    };
    Some(Field { name, number: number.parse().ok()?, message, shape, count, omit_empty, omit_zero })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood() {
        let table = parse(SCHEMA);
        let lines = |prefix: &str| SCHEMA.lines().filter(|line| line.starts_with(prefix)).count();
        assert_eq!(table.kinds.len(), lines("kind "));
        assert_eq!(table.messages.len(), lines("type "));
        assert_eq!(table.messages.iter().map(|message| message.fields.len()).sum::<usize>(), lines("\t"));
        assert_eq!(SCHEMA.lines().count(), lines("kind ") + lines("type ") + lines("\t"));
        for message in &table.messages {
            assert!(message.fields.len() < 256);
            for field in &message.fields {
                assert_eq!(message.field(field.number.into()).map(|found| found.name), Some(field.name));
                // What the decoders rely on.
                assert!(!field.is_inline() || (field.shape == Shape::Message && field.count == Count::One));
                assert!(!field.omit_zero || field.shape == Shape::Time);
            }
        }
    }

    #[test]
    fn kinds_are_found_by_version() {
        let pod = Message::of_kind("v1", "Pod").unwrap();
        assert_eq!(
            pod.fields.iter().map(|field| field.name).collect::<Vec<_>>(),
            ["metadata", "spec", "status"]
        );
        let spec = pod.field(2).unwrap().message().unwrap();
        assert_eq!(spec.field(10).unwrap().name, "nodeName");
        assert_eq!(spec.field(1).unwrap().message().unwrap().field(2).unwrap().name, "");
        assert!(Message::of_kind("apps/v1", "Pod").is_none());
        assert!(Message::of_kind("meta.k8s.io/v1", "PartialObjectMetadata").is_some());
    }
}
