//! Log lines in upstream's two formats, klog's text and its JSON, so that log parsers work unchanged.
//!
//! ```text
//! I1116 11:28:27.123456       1 runtime/tasks.rs:24] "sync failed" logger="job-controller" namespace="a" name="b"
//! {"ts":1794828507123.456,"logger":"job-controller","caller":"runtime/tasks.rs:24","msg":"sync failed","v":0,"namespace":"a","name":"b"}
//! ```

use std::fmt::{self, Write};

use flyball_runtime::Syncing;
use jiff::{Timestamp, tz::TimeZone};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

/// Receives each line, including its newline, by level.
type Out = Box<dyn Fn(Level, &str) + Send + Sync>;

/// Formats events as lines, with the fields of their spans and the object of their sync.
pub(super) struct Lines {
    format: Format,
    now: fn() -> Timestamp,
    header: Header,
    out: Out,
}

impl Lines {
    pub(super) fn new(format: Format, now: fn() -> Timestamp, zone: TimeZone, out: Out) -> Self {
        Self { format, now, header: Header::new(zone), out }
    }
}

/// The part of text lines that hardly changes: each write is a line, and finding out the local time costs more than the rest of it.
struct Header {
    zone: TimeZone,
    process: u32,
    /// The last second of a line, and its text.
    second: Mutex<(i64, String)>,
}

impl Header {
    fn new(zone: TimeZone) -> Self {
        Self { zone, process: std::process::id(), second: Mutex::new((i64::MIN, String::new())) }
    }

    fn write(&self, line: &mut String, metadata: &Metadata<'_>, now: Timestamp) {
        line.push(match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        });
        let microsecond = now.as_microsecond();
        let second = microsecond.div_euclid(1_000_000);
        let mut known = self.second.lock();
        if known.0 != second {
            let text = now.to_zoned(self.zone.clone()).strftime("%m%d %H:%M:%S").to_string();
            *known = (second, text);
        }
        line.push_str(&known.1);
        drop(known);
        let (fraction, process) = (microsecond.rem_euclid(1_000_000), self.process);
        let _ = write!(line, ".{fraction:06} {process:>7} {}] ", Caller(metadata));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        // Before the lock: a value that panics when it is formatted causes another line within the same span.
        values.record(&mut fields);
        if let Some(known) = span.extensions_mut().get_mut::<Fields>() {
            fields.pairs.into_iter().for_each(|(name, value)| known.put(name, value));
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in cx.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<Fields>() {
                outer.pairs.iter().for_each(|(name, value)| fields.put(name, value.clone()));
            }
        }
        Syncing::current(|Syncing { object, attempt, .. }| {
            fields.put("namespace", object.namespace.as_str().into());
            fields.put("name", object.name.as_str().into());
            fields.put("attempt", (*attempt).into());
        });
        event.record(&mut fields);
        let (metadata, now) = (event.metadata(), (self.now)());
        let line = match self.format {
            Format::Text => fields.text(metadata, now, &self.header),
            Format::Json => fields.json(metadata, now),
        };
        (self.out)(*metadata.level(), &line);
    }
}

/// The fields of an event, with upstream's names.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    pairs: Vec<(&'static str, Value)>,
}

/// More than most lines have.
const USUAL: usize = 512;
const ERROR: &str = "err";
const LOGGER: &str = "logger";

impl Fields {
    /// The last value of a field is used.
    fn put(&mut self, name: &'static str, value: Value) {
        let name = match name {
            "message" => {
                self.message = match value {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                return;
            }
            "error" => ERROR,
            "controller" => LOGGER,
            name => name,
        };
        match self.pairs.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((name, value)),
        }
    }

    fn get(&self, wanted: &str) -> Option<&(&'static str, Value)> {
        self.pairs.iter().find(|(name, _)| *name == wanted)
    }

    /// The fields that have no place of their own.
    fn rest(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.pairs.iter().filter(|(name, _)| !matches!(*name, ERROR | LOGGER))
    }

    fn text(&self, metadata: &Metadata<'_>, now: Timestamp, header: &Header) -> String {
        let mut line = String::with_capacity(USUAL);
        header.write(&mut line, metadata, now);
        push_quoted(&mut line, &self.message);
        for (name, value) in self.get(ERROR).into_iter().chain(self.get(LOGGER)).chain(self.rest()) {
            line.extend([" ", name, "="]);
            match value {
                Value::String(text) if text.contains('\n') => {
                    line.push_str("<\n");
                    text.lines().for_each(|part| line.extend(["\t", part, "\n"]));
                    line.push_str(" >");
                }
                value => push_value(&mut line, value),
            }
        }
        line.push('\n');
        line
    }

    fn json(&self, metadata: &Metadata<'_>, now: Timestamp) -> String {
        let mut line = String::with_capacity(USUAL);
        let _ = write!(line, "{{\"ts\":{}", now.as_microsecond() as f64 / 1e3);
        if let Some((name, value)) = self.get(LOGGER) {
            push_member(&mut line, name, value);
        }
        line.push_str(",\"caller\":");
        push_quoted(&mut line, &Caller(metadata).to_string());
        line.push_str(",\"msg\":");
        push_quoted(&mut line, &self.message);
        if let Some(verbosity) = verbosity(*metadata.level()) {
            let _ = write!(line, ",\"v\":{verbosity}");
        }
        for (name, value) in self.rest().chain(self.get(ERROR)) {
            push_member(&mut line, name, value);
        }
        line.push_str("}\n");
        line
    }
}

/// The verbosity at which lines of a level appear; an error has none.
fn verbosity(level: Level) -> Option<u32> {
    match level {
        Level::ERROR => None,
        Level::WARN | Level::INFO => Some(0),
        Level::DEBUG => Some(2),
        Level::TRACE => Some(6),
    }
}

/// Adds a member of a JSON object that is not the first.
fn push_member(line: &mut String, name: &str, value: &Value) {
    line.push(',');
    push_quoted(line, name);
    line.push(':');
    push_value(line, value);
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::String(text) => push_quoted(line, text),
        value => {
            let _ = write!(line, "{value}");
        }
    }
}

/// Adds a JSON string. Nearly all have nothing to escape.
fn push_quoted(line: &mut String, text: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        line.extend(["\"", text, "\""]);
    } else {
        line.push_str(&Value::from(text).to_string());
    }
}

/// Folder, file and line, as klog with `--add_dir_header`, since many files have the same name.
struct Caller<'a>(&'a Metadata<'a>);

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(path) = self.0.file() else { return f.write_str(self.0.target()) };
        let mut parts = path.rsplit('/').filter(|part| *part != "src");
        let file = parts.next().unwrap_or(path);
        if let Some(folder) = parts.next() {
            write!(f, "{folder}/")?;
        }
        write!(f, "{file}:{}", self.0.line().unwrap_or_default())
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }
}
