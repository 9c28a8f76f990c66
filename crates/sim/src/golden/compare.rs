//! Judges a run against a recording, and merges several runs into one. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expected::Snapshot;

/// Stands for whatever differed between recordings: anything is accepted there.
const UNSTABLE: &str = "<unstable>";
const SOME: &str = "some";

/// One difference between a run and its recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Snapshot, section, and path of the value.
    pub path: Vec<String>,
    /// The recorded value, if there is one.
    pub want: Option<Value>,
    /// The observed value, if there is one.
    pub got: Option<Value>,
}

/// How counts of requests and events are treated. They depend on how changes were batched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// Only what must be exact is compared: the number of creations and deletions.
    Relaxed,
    Strict,
}

/// How `got` differs from `want`. Snapshots that only `got` has are ignored.
pub fn differences(want: &[Snapshot], got: &[Snapshot], counts: Counts) -> Vec<Difference> {
    let mut out = Vec::new();
    for wanted in want {
        let label = &wanted.label;
        let Some(seen) = got.iter().find(|snapshot| snapshot.label == *label) else {
            let want = Some(Value::from("a snapshot"));
            out.push(Difference { path: vec![label.clone()], want, got: None });
            continue;
        };
        let mut trail = vec![label.clone(), "objects".to_owned()];
        compare_maps(&wanted.objects, &seen.objects, &mut trail, &mut out);
        let mut trail = vec![label.clone(), "managers".to_owned()];
        compare_managers(wanted, seen, &mut trail, &mut out);
        for (section, want, got) in [
            (Section::Events, &wanted.events, &seen.events),
            (Section::Requests, &wanted.requests, &seen.requests),
        ] {
            let mut trail = vec![label.clone(), section.name().to_owned()];
            match counts {
                Counts::Strict => compare_maps(want, got, &mut trail, &mut out),
                Counts::Relaxed => {
                    let mut relaxed = section.relax(got, want);
                    // What is unstable in the recording is not required.
                    relaxed.retain(|key, _| !want.get(key).is_some_and(is_unstable));
                    compare_maps(&section.relax(want, want), &relaxed, &mut trail, &mut out);
                }
            }
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Events,
    Requests,
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Requests => "requests",
        }
    }

    /// `counts` without what need not be exact according to `recorded`.
    fn relax(
        self,
        counts: &BTreeMap<String, Value>,
        recorded: &BTreeMap<String, Value>,
    ) -> BTreeMap<String, Value> {
        let mut out = BTreeMap::new();
        for (key, count) in counts {
            let mut words = key.split(' ');
            let (verb, code) = (words.nth(1).unwrap_or_default(), words.next_back().unwrap_or_default());
            if self == Self::Requests && code.parse::<u16>().is_ok_and(|code| code >= 400) {
                continue;
            }
            let exact = self == Self::Requests
                && matches!(verb, "create" | "delete" | "deletecollection")
                && recorded.get(key).is_none_or(|count| count != SOME);
            let kept = if exact || is_unstable(count) { count.clone() } else { SOME.into() };
            out.insert(key.clone(), kept);
        }
        out
    }
}

/// Compares the field managers of the objects that both have. Missing objects are differences already.
fn compare_managers(want: &Snapshot, got: &Snapshot, trail: &mut Vec<String>, out: &mut Vec<Difference>) {
    if want.managers.is_empty() {
        return;
    }
    let none = Value::from("");
    let of = |snapshot: &'_ Snapshot, key| snapshot.managers.get(key).unwrap_or(&none).clone();
    let stable = want.objects.iter().filter(|(_, object)| !is_unstable(object));
    for (key, _) in stable.filter(|(key, _)| got.objects.contains_key(*key)) {
        trail.push(key.clone());
        compare(Some(&of(want, key)), Some(&of(got, key)), trail, out);
        trail.pop();
    }
}

fn compare_maps(
    want: &BTreeMap<String, Value>,
    got: &BTreeMap<String, Value>,
    trail: &mut Vec<String>,
    out: &mut Vec<Difference>,
) {
    let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    for key in keys {
        trail.push(key.clone());
        compare(want.get(key), got.get(key), trail, out);
        trail.pop();
    }
}

fn compare(want: Option<&Value>, got: Option<&Value>, trail: &mut Vec<String>, out: &mut Vec<Difference>) {
    match (want, got) {
        (Some(want), _) if is_unstable(want) => {}
        (Some(want), Some(got)) if want == SOME && got.is_i64() => {}
        (Some(Value::Object(want)), Some(Value::Object(got))) => {
            let keys: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
            for key in keys {
                trail.push(key.clone());
                compare(want.get(key), got.get(key), trail, out);
                trail.pop();
            }
        }
        (Some(Value::Array(want)), Some(Value::Array(got))) if want.len() == got.len() => {
            for (index, (want, got)) in want.iter().zip(got).enumerate() {
                trail.push(index.to_string());
                compare(Some(want), Some(got), trail, out);
                trail.pop();
            }
        }
        (Some(want), Some(got)) if same(want, got) => {}
        (want, got) => {
            out.push(Difference { path: trail.clone(), want: want.cloned(), got: got.cloned() });
        }
    }
}

/// Equal as JSON: `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.is_number() && b.is_number() && a.as_f64() == b.as_f64()
}

fn is_unstable(value: &Value) -> bool {
    value == UNSTABLE
}

/// What two runs agree on; the paths of the differences are added to `flaky`.
pub fn merge(a: Vec<Snapshot>, b: Vec<Snapshot>, flaky: &mut BTreeSet<String>) -> Vec<Snapshot> {
    a.into_iter()
        .zip(b)
        .enumerate()
        .map(|(index, (a, b))| {
            let mut section = |name: &str, a: BTreeMap<String, Value>, b: BTreeMap<String, Value>| {
                let mut trail = vec!["snapshots".to_owned(), index.to_string(), name.to_owned()];
                let merged = merge_values(to_object(a), to_object(b), &mut trail, flaky);
                match merged {
                    Value::Object(map) => map.into_iter().collect(),
                    _ => BTreeMap::new(),
                }
            };
            let objects = section("objects", a.objects, b.objects);
            let managers = match a.managers.is_empty() || b.managers.is_empty() {
                // Recordings from before managers were recorded have none.
                true => a.managers.into_iter().chain(b.managers).collect(),
                false => section("managers", a.managers, b.managers),
            };
            let events = section("events", a.events, b.events);
            let requests = section("requests", a.requests, b.requests);
            Snapshot { label: a.label, objects, managers, events, requests }
        })
        .collect()
}

fn to_object(map: BTreeMap<String, Value>) -> Value {
    Value::Object(map.into_iter().collect())
}

fn merge_values(a: Value, b: Value, trail: &mut Vec<String>, flaky: &mut BTreeSet<String>) -> Value {
    if is_unstable(&a) || is_unstable(&b) {
        return UNSTABLE.into();
    }
    if a == SOME && b.is_i64() || same(&a, &b) {
        return a;
    }
    match (a, b) {
        (Value::Object(mut a), Value::Object(mut b)) => {
            let keys: BTreeSet<String> = a.keys().chain(b.keys()).cloned().collect();
            let mut out = serde_json::Map::new();
            for key in keys {
                trail.push(key.clone());
                let merged = match (a.remove(&key), b.remove(&key)) {
                    (Some(a), Some(b)) => merge_values(a, b, trail, flaky),
                    (one, other) => {
                        if !one.or(other).as_ref().is_some_and(is_unstable) {
                            flaky.insert(format!("{} (in one run only)", trail.join("/")));
                        }
                        UNSTABLE.into()
                    }
                };
                trail.pop();
                out.insert(key, merged);
            }
            Value::Object(out)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut out = Vec::with_capacity(a.len());
            for (index, (a, b)) in a.into_iter().zip(b).enumerate() {
                trail.push(index.to_string());
                out.push(merge_values(a, b, trail, flaky));
                trail.pop();
            }
            Value::Array(out)
        }
        (a, b) => {
            let counted = trail.get(2).is_some_and(|section| section == "requests" || section == "events");
            let is_count = |value: &Value| value.is_i64() || value.is_string();
            if counted && is_count(&a) && is_count(&b) {
                flaky.insert(format!("{} (count {a} or {b})", trail.join("/")));
                return SOME.into();
            }
            flaky.insert(trail.join("/"));
            UNSTABLE.into()
        }
    }
}
