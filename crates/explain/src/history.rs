//! What happened, in order: decisions of controllers, writes of users (managedFields), events.

use flyball_api::Timestamp;
use flyball_api::time::{format_seconds, parse_rfc3339};

use crate::finding::Entry;
use crate::object::{Obj, Ref};
use crate::words::one_line;
use crate::world::{Decision, World};

/// Field managers of the parts of Kubernetes: their writes are no users' writes.
const PARTS: &[&str] = &[
    "kube-controller-manager",
    "kubelet",
    "kube-scheduler",
    "flyball",
    "cloud-controller-manager",
    "kube-apiserver",
];

/// The history of these objects, oldest first, at most the `limit` latest entries.
pub(crate) fn of(world: &World, objects: &[Obj<'_>], limit: usize) -> Vec<Entry> {
    let mut found: Vec<(Timestamp, Entry)> = Vec::new();
    for object in objects {
        let named = object.named();
        writes(*object, &named, &mut found);
        for event in world.events(*object) {
            let Some(time) = event.last else { continue };
            let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
            let what = format!("{}: {}{times}", event.reason, one_line(event.message, 200));
            found.push((time, entry(time, event.source, what, &named, "event")));
        }
    }
    let concerns = |decision: &&Decision| objects.iter().any(|object| decision.target.is(&object.named()));
    for decision in world.decisions.iter().filter(concerns) {
        let Some(time) = parse_rfc3339(&decision.time) else { continue };
        let target = &decision.target;
        let object = Ref::new("", &target.kind, &target.namespace, &target.name);
        found.push((
            time,
            Entry {
                time: decision.time.clone(),
                ..entry(time, &decision.controller, what(decision), &object, "decision")
            },
        ));
    }
    found.sort_by_key(|(time, _)| *time);
    // A part's entry in managedFields repeats a decision.
    let has_decisions = found.iter().any(|(_, entry)| entry.source == "decision");
    let is_repeated = |entry: &Entry| {
        has_decisions && entry.source == "write" && PARTS.iter().any(|part| entry.who.starts_with(part))
    };
    let mut entries: Vec<Entry> =
        found.into_iter().map(|(_, entry)| entry).filter(|entry| !is_repeated(entry)).collect();
    entries.dedup();
    let mut entries = merged(entries);
    // Reports of a status say the least.
    if entries.len() > limit {
        entries.retain(|entry| !entry.what.starts_with("reports its status"));
    }
    entries.split_off(entries.len().saturating_sub(limit))
}

/// Of repeated events about one object, the last, with how many there were.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let reason = |entry: &Entry| entry.what.split(':').next().unwrap_or_default().to_owned();
    let is_same = |a: &Entry, b: &Entry| {
        a.source == "event" && b.source == "event" && a.object == b.object && reason(a) == reason(b)
    };
    let mut kept: Vec<(Entry, usize)> = Vec::new();
    for entry in entries {
        let before = kept.iter().position(|(known, _)| is_same(known, &entry));
        let count = before.map_or(0, |at| kept.remove(at).1);
        kept.push((entry, count + 1));
    }
    let told = |(mut entry, count): (Entry, usize)| {
        if count > 1 {
            entry.what = format!("{} (the last of {count} such events)", entry.what);
        }
        entry
    };
    kept.into_iter().map(told).collect()
}

fn entry(time: Timestamp, who: &str, what: String, object: &Ref, source: &'static str) -> Entry {
    let who = if who.is_empty() { "unknown".to_owned() } else { who.to_owned() };
    Entry { time: format_seconds(time), who, what, object: object.clone(), source }
}

fn what(decision: &Decision) -> String {
    let verb = match (decision.action.as_str(), decision.subresource.as_str()) {
        ("create", "") => "creates it".to_owned(),
        ("create", "binding") => "binds it".to_owned(),
        ("delete", _) => "deletes it".to_owned(),
        ("update" | "patch", "status") => "reports its status".to_owned(),
        ("update" | "patch", "") => "changes it".to_owned(),
        (action, part) => format!("{action}s its {part}"),
    };
    let why = if decision.why.is_empty() { String::new() } else { format!(": {}", decision.why) };
    match decision.outcome.as_str() {
        "done" => format!("{verb}{why}"),
        outcome => format!("{verb}{why} [{outcome}: {}]", one_line(&decision.detail, 200)),
    }
}

fn writes(object: Obj<'_>, named: &Ref, found: &mut Vec<(Timestamp, Entry)>) {
    let created = object.time("/metadata/creationTimestamp");
    let mut creator = "";
    for written in object.list("/metadata/managedFields") {
        let Some(time) = written.time("/time") else { continue };
        let manager = written.text("/manager");
        if Some(time) == created && creator.is_empty() && written.text("/subresource").is_empty() {
            creator = manager;
            continue;
        }
        let verb = if written.text("/operation") == "Apply" { "applies" } else { "sets" };
        let what = match written.text("/subresource") {
            "status" => "reports its status".to_owned(),
            part => {
                let fields = fields(written.at("/fieldsV1"));
                let of = if part.is_empty() { String::new() } else { format!(" (through {part})") };
                format!("{verb} {fields}{of}")
            }
        };
        found.push((time, entry(time, manager, what, named, "write")));
    }
    if let Some(time) = created {
        found.push((time, entry(time, creator, "created it".to_owned(), named, "write")));
    }
}

/// The fields of an entry, two levels deep: `spec.replicas, spec.template`.
fn fields(value: &serde_json::Value) -> String {
    let mut names = Vec::new();
    for (outer, below) in value.as_object().into_iter().flatten() {
        let outer = outer.trim_start_matches("f:");
        let inner = below
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("f:"));
        names.extend(inner.map(|name| format!("{outer}.{}", name.trim_start_matches("f:"))));
    }
    crate::words::list(&names, 4)
}
