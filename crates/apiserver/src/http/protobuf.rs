//! Reads request bodies in Kubernetes' protocol buffers, which upstream's typed clients send. `protobuf.txt` has the field numbers.

use std::sync::LazyLock;

use base64::Engine as _;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// The limit on nesting, so that a malicious body cannot exhaust the stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, PartialEq)]
enum Wire {
    String,
    Bytes,
    Int,
    Bool,
    Float,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    Raw,
    Message(usize),
    /// A message that holds a list in its field 1.
    Items(Box<Wire>),
    List(Box<Wire>),
    Map(Box<Wire>),
}

struct Field {
    number: u64,
    /// JSON name; `~` for a message whose fields are inlined in JSON.
    name: &'static str,
    wire: Wire,
}

struct Table {
    kinds: FxHashMap<(&'static str, &'static str), usize>,
    messages: Vec<Vec<Field>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("protobuf.txt")));

impl Table {
    fn parse(text: &'static str) -> Self {
        let names: FxHashMap<&str, usize> = text
            .lines()
            .filter_map(|line| line.strip_prefix("type "))
            .enumerate()
            .map(|(at, name)| (name, at))
            .collect();
        let mut table = Table { kinds: FxHashMap::default(), messages: Vec::new() };
        for line in text.lines() {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words[..] {
                ["kind", version, kind, name] => {
                    if let Some(at) = names.get(name) {
                        table.kinds.insert((version, kind), *at);
                    }
                }
                ["type", _] => table.messages.push(Vec::new()),
                [number, name, wire] => {
                    if let (Some(message), Ok(number)) = (table.messages.last_mut(), number.parse()) {
                        message.push(Field { number, name, wire: wire_of(wire, &names) });
                    }
                }
                _ => {}
            }
        }
        table
    }
}

fn wire_of(text: &str, names: &FxHashMap<&str, usize>) -> Wire {
    if let Some(item) = text.strip_prefix("[]") {
        return Wire::List(Box::new(wire_of(item, names)));
    }
    if let Some(item) = text.strip_prefix("{}") {
        return Wire::Map(Box::new(wire_of(item, names)));
    }
    if let Some(item) = text.strip_prefix("items:") {
        return Wire::Items(Box::new(wire_of(item, names)));
    }
    match text {
        "string" => Wire::String,
        "bytes" => Wire::Bytes,
        "int" => Wire::Int,
        "bool" => Wire::Bool,
        "float" => Wire::Float,
        "time" => Wire::Time,
        "microtime" => Wire::MicroTime,
        "duration" => Wire::Duration,
        "quantity" => Wire::Quantity,
        "intstr" => Wire::IntOrString,
        "raw" => Wire::Raw,
        name => names.get(name).map_or(Wire::Raw, |at| Wire::Message(*at)),
    }
}

/// The object in a protobuf body.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, String> {
    let envelope =
        bytes.strip_prefix(MAGIC).ok_or("the body does not begin with the Kubernetes magic number")?;
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for part in Parts(envelope) {
        match part? {
            (1, Part::Bytes(meta)) => {
                for part in Parts(meta) {
                    match part? {
                        (1, Part::Bytes(text)) => version = text_of(text)?,
                        (2, Part::Bytes(text)) => kind = text_of(text)?,
                        _ => {}
                    }
                }
            }
            (2, Part::Bytes(body)) => raw = body,
            _ => {}
        }
    }
    let id = TABLE.kinds.get(&(version.as_str(), kind.as_str()));
    let id = *id.ok_or_else(|| format!("no kind {kind:?} is registered for version {version:?}"))?;
    let mut object = message(id, raw, 0)?;
    object.insert("apiVersion".to_owned(), json!(version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

fn message(id: usize, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    fill(&mut out, id, bytes, depth)?;
    Ok(out)
}

fn fill(out: &mut Map<String, Value>, id: usize, bytes: &[u8], depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("messages are nested too deeply".to_owned());
    }
    let fields = TABLE.messages.get(id).map(Vec::as_slice).unwrap_or_default();
    for part in Parts(bytes) {
        let (number, part) = part?;
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        if field.name == "~" {
            if let (Wire::Message(inner), Part::Bytes(bytes)) = (&field.wire, &part) {
                fill(out, *inner, bytes, depth + 1)?;
            }
            continue;
        }
        match &field.wire {
            Wire::List(item) => {
                let list = out.entry(field.name).or_insert_with(|| json!([]));
                let Value::Array(list) = list else { continue };
                match (&**item, part) {
                    (Wire::Int | Wire::Bool, Part::Bytes(mut packed)) => {
                        while !packed.is_empty() {
                            let number = varint(&mut packed)?;
                            list.push(scalar(item, Part::Number(number), depth)?);
                        }
                    }
                    (item, part) => list.push(scalar(item, part, depth)?),
                }
            }
            Wire::Map(item) => {
                let Part::Bytes(bytes) = part else { continue };
                let (mut key, mut value) = (String::new(), None);
                for part in Parts(bytes) {
                    match part? {
                        (1, Part::Bytes(text)) => key = text_of(text)?,
                        (2, part) => value = Some(scalar(item, part, depth)?),
                        _ => {}
                    }
                }
                let map = out.entry(field.name).or_insert_with(|| json!({}));
                if let Value::Object(map) = map {
                    map.insert(key, value.unwrap_or_else(|| empty(item)));
                }
            }
            wire => {
                let value = scalar(wire, part, depth)?;
                out.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn empty(wire: &Wire) -> Value {
    match wire {
        Wire::Int | Wire::Float => json!(0),
        Wire::Bool => json!(false),
        Wire::Message(_) => json!({}),
        Wire::Items(_) => json!([]),
        Wire::Quantity => json!("0"),
        _ => json!(""),
    }
}

fn scalar(wire: &Wire, part: Part<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (wire, part) {
        (Wire::String, Part::Bytes(bytes)) => json!(text_of(bytes)?),
        (Wire::Bytes, Part::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        (Wire::Int, Part::Number(number)) => json!(number as i64),
        (Wire::Bool, Part::Number(number)) => json!(number != 0),
        (Wire::Float, Part::Double(number)) => json!(number),
        (Wire::Message(id), Part::Bytes(bytes)) => Value::Object(message(*id, bytes, depth + 1)?),
        (Wire::Items(item), Part::Bytes(bytes)) => {
            let parts = Parts(bytes).filter(|part| !matches!(part, Ok((number, _)) if *number != 1));
            Value::Array(parts.map(|part| scalar(item, part?.1, depth + 1)).collect::<Result<_, _>>()?)
        }
        (Wire::Time, Part::Bytes(bytes)) => time(bytes, false)?,
        (Wire::MicroTime, Part::Bytes(bytes)) => time(bytes, true)?,
        (Wire::Duration, Part::Bytes(bytes)) => match number_field(bytes, 1)? {
            // A Go duration of nanoseconds; the shape writes it canonically.
            Some(nanos) => json!(format!("{nanos}ns")),
            None => json!("0s"),
        },
        (Wire::Quantity, Part::Bytes(bytes)) => {
            json!(text_field(bytes, 1)?.unwrap_or_else(|| "0".to_owned()))
        }
        (Wire::IntOrString, Part::Bytes(bytes)) => match number_field(bytes, 1)? {
            Some(1) => json!(text_field(bytes, 3)?.unwrap_or_default()),
            _ => json!(number_field(bytes, 2)?.unwrap_or(0)),
        },
        (Wire::Raw, Part::Bytes(bytes)) => {
            let mut raw = &[][..];
            for part in Parts(bytes) {
                if let (1, Part::Bytes(found)) = part? {
                    raw = found;
                }
            }
            match raw.is_empty() {
                true => Value::Null,
                false => {
                    serde_json::from_slice(raw).map_err(|error| format!("raw JSON in the body: {error}"))?
                }
            }
        }
        _ => return Err("a field has the wrong wire type".to_owned()),
    })
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, String> {
    let (seconds, nanos) = (number_field(bytes, 1)?, number_field(bytes, 2)?);
    if seconds.is_none() && nanos.is_none() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos.unwrap_or(0)).map_err(|_| "a time has too many nanoseconds")?;
    let at = Timestamp::new(seconds.unwrap_or(0), nanos).map_err(|error| error.to_string())?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(at.strftime(format).to_string()))
}

fn number_field(bytes: &[u8], wanted: u64) -> Result<Option<i64>, String> {
    let mut found = None;
    for part in Parts(bytes) {
        if let (number, Part::Number(value)) = part?
            && number == wanted
        {
            found = Some(value as i64);
        }
    }
    Ok(found)
}

fn text_field(bytes: &[u8], wanted: u64) -> Result<Option<String>, String> {
    let mut found = None;
    for part in Parts(bytes) {
        if let (number, Part::Bytes(value)) = part?
            && number == wanted
        {
            found = Some(text_of(value)?);
        }
    }
    Ok(found)
}

fn text_of(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}

enum Part<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in the order of the bytes.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Result<(u64, Part<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.read();
        if part.is_err() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Parts<'a> {
    fn read(&mut self) -> Result<(u64, Part<'a>), String> {
        let tag = varint(&mut self.0)?;
        let part = match tag & 7 {
            0 => Part::Number(varint(&mut self.0)?),
            1 => Part::Double(f64::from_le_bytes(self.take(8)?.try_into().map_err(|_| CUT)?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| CUT)?;
                Part::Bytes(self.take(length)?)
            }
            5 => Part::Double(f64::from(f32::from_le_bytes(self.take(4)?.try_into().map_err(|_| CUT)?))),
            other => return Err(format!("unknown wire type {other}")),
        };
        Ok((tag >> 3, part))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        if length > self.0.len() {
            return Err(CUT.to_owned());
        }
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        Ok(head)
    }
}

const CUT: &str = "the body ends in the middle of a field";

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(CUT)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u64, body: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3 | 2) as u8, body.len() as u8];
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_pod_is_read_with_its_inlined_volume_sources() {
        let meta = [field(1, b"v1"), field(2, b"Pod")].concat();
        let secret = field(6, &field(1, b"s"));
        let volume = [field(1, b"v"), field(2, &secret)].concat();
        let grace = [0x20, 0x1e]; // terminationGracePeriodSeconds = 30
        let spec = [field(1, &volume), grace.to_vec()].concat();
        let labels = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let object_meta = [field(1, b"x"), labels, field(8, &[])].concat();
        let pod = [field(1, &object_meta), field(2, &spec)].concat();
        let body = [MAGIC.to_vec(), field(1, &meta), field(2, &pod)].concat();
        assert_eq!(
            decode(&body).unwrap(),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "x", "labels": {"app": "web"}, "creationTimestamp": null},
                "spec": {"terminationGracePeriodSeconds": 30, "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}})
        );
        for cut in 0..body.len() {
            let _ = decode(&body[..cut]); // whatever it says, it does not panic
        }
    }
}
