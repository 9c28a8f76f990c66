//! Objects with random names are interchangeable: which of several equal pods a controller picks is random. So they are
//! renumbered by content in every snapshot, and the numbers carry no identity from one to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::expected::Snapshot;
use super::normalise::sort_fields;
use super::text::{canonical, natural};

#[expect(clippy::unwrap_used, reason = "a constant pattern, compiled by every test")]
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<rand-(\d+)>").unwrap());

/// The snapshot with the numbers of random names assigned by the objects' content.
pub(super) fn renumber(snapshot: Snapshot) -> Snapshot {
    let new_names = new_names(&snapshot.objects);
    // The longest first: a name may be a prefix of another.
    let mut old: Vec<&str> = new_names.keys().map(String::as_str).collect();
    old.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let rename = Rename { old, new: &new_names };

    let mut objects = BTreeMap::new();
    for (key, value) in &snapshot.objects {
        let mut value = rename.value(value);
        // Their order follows the names that have just changed.
        if key.starts_with("EndpointSlice/") {
            sort_fields(&mut value, &["endpoints"]);
        } else if key.starts_with("Endpoints/") {
            for subset in value.get_mut("subsets").and_then(Value::as_array_mut).into_iter().flatten() {
                sort_fields(subset, &["addresses", "notReadyAddresses"]);
            }
        }
        objects.insert(rename.text(key), value);
    }
    let mut events: BTreeMap<String, Value> = BTreeMap::new();
    for (key, count) in &snapshot.events {
        let sum = events.entry(blank(key)).or_insert_with(|| 0.into());
        *sum = (sum.as_i64().unwrap_or_default() + count.as_i64().unwrap_or_default()).into();
    }
    let managers = snapshot.managers.iter().map(|(key, value)| (rename.text(key), value.clone())).collect();
    Snapshot { objects, managers, events, ..snapshot }
}

fn new_names(objects: &BTreeMap<String, Value>) -> HashMap<String, String> {
    let name_of = |key: &str| key.split_once('/').map_or(String::new(), |(_, name)| name.to_owned());
    let names: BTreeSet<String> =
        objects.keys().filter(|key| NUMBERED.is_match(key)).map(|key| name_of(key)).collect();
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_by_cached_key(|name| {
        let content: Vec<String> = objects
            .iter()
            .filter(|(key, _)| name_of(key) == **name)
            .map(|(_, value)| blank(&canonical(value)))
            .collect();
        (blank(name), content, natural(name))
    });
    let mut counters: HashMap<String, usize> = HashMap::new();
    let mut renamed = HashMap::new();
    for name in sorted {
        if NUMBERED.find_iter(name).count() != 1 {
            continue;
        }
        let counter = counters.entry(blank(name)).or_default();
        *counter += 1;
        renamed.insert(name.clone(), NUMBERED.replace(name, format!("<rand-{counter}>")).into_owned());
    }
    renamed
}

fn blank(text: &str) -> String {
    NUMBERED.replace_all(text, "<rand>").into_owned()
}

struct Rename<'a> {
    old: Vec<&'a str>,
    new: &'a HashMap<String, String>,
}

impl Rename<'_> {
    /// In one pass from left to right: a new name is never taken for an old one.
    fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        'next: while !rest.is_empty() {
            for old in &self.old {
                if let Some(tail) = rest.strip_prefix(old) {
                    out.push_str(&self.new[*old]);
                    rest = tail;
                    continue 'next;
                }
            }
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
        }
        out
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, item)| (self.text(key), self.value(item))).collect())
            }
            other => other.clone(),
        }
    }
}
