//! Log lines in upstream's two formats, klog's text and its JSON, so that log parsers work unchanged.
//!
//! ```text
//! I1116 11:28:27.123456       1 runtime/tasks.rs:24] "sync failed" logger="job-controller" namespace="a" name="b"
//! {"ts":1794828507123.456,"logger":"job-controller","caller":"runtime/tasks.rs:24","msg":"sync failed","v":0,"namespace":"a","name":"b"}
//! ```

use std::fmt::{self, Write};

use jiff::{Timestamp, tz::TimeZone};
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

/// Formats events, with the fields of their spans, as lines.
pub(super) struct Lines {
    format: Format,
    now: fn() -> Timestamp,
    zone: TimeZone,
    out: Out,
}

impl Lines {
    pub(super) fn new(format: Format, now: fn() -> Timestamp, zone: TimeZone, out: Out) -> Self {
        Self { format, now, zone, out }
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
        event.record(&mut fields);
        let (metadata, now) = (event.metadata(), (self.now)());
        let line = match self.format {
            Format::Text => fields.text(metadata, now, &self.zone),
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

const ERROR: &str = "err";
const LOGGER: &str = "logger";

impl Fields {
    /// The last value of a field is used.
    fn put(&mut self, name: &'static str, value: Value) {
        let name = match name {
            "message" => {
                self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
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

    fn text(&self, metadata: &Metadata<'_>, now: Timestamp, zone: &TimeZone) -> String {
        let severity = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let time = now.to_zoned(zone.clone()).strftime("%m%d %H:%M:%S%.6f");
        let (process, caller) = (std::process::id(), Caller(metadata));
        let mut line = format!("{severity}{time} {process:>7} {caller}] {}", quoted(&self.message));
        for (name, value) in self.get(ERROR).into_iter().chain(self.get(LOGGER)).chain(self.rest()) {
            let _ = write!(line, " {name}=");
            match value {
                Value::String(text) if text.contains('\n') => {
                    line.push_str("<\n");
                    text.lines().for_each(|part| line.extend(["\t", part, "\n"]));
                    line.push_str(" >");
                }
                value => line.push_str(&value.to_string()),
            }
        }
        line.push('\n');
        line
    }

    fn json(&self, metadata: &Metadata<'_>, now: Timestamp) -> String {
        let mut line = format!("{{\"ts\":{}", now.as_microsecond() as f64 / 1e3);
        if let Some((name, value)) = self.get(LOGGER) {
            let _ = write!(line, ",\"{name}\":{value}");
        }
        let caller = quoted(&Caller(metadata).to_string());
        let _ = write!(line, ",\"caller\":{caller},\"msg\":{}", quoted(&self.message));
        if let Some(verbosity) = verbosity(*metadata.level()) {
            let _ = write!(line, ",\"v\":{verbosity}");
        }
        for (name, value) in self.rest().chain(self.get(ERROR)) {
            let _ = write!(line, ",{}:{value}", quoted(name));
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

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
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
