//! Decisions as OTLP traces (the JSON encoding): a span for each write. Its parent is the write that caused it, as far as names tell:
//! the last one before it that wrote the object whose controller decides now, or else the object that is written now. So one change is
//! one trace, from the Deployment to the status of its pods.

use std::collections::BTreeMap;

use flyball_api::Timestamp;
use flyball_api::time::parse_rfc3339;
use serde_json::{Value, json};
use smol_str::{SmolStr, ToSmolStr as _};

use crate::line::Line;

/// What happens so much later has another cause.
const CAUSED_WITHIN: i64 = 60;

/// Kind, namespace and name.
type Object = (SmolStr, SmolStr, SmolStr);

/// A write with its place in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span<'a> {
    pub line: &'a Line,
    pub ended: Timestamp,
    /// Index of the span that caused it.
    pub parent: Option<usize>,
    /// Index of the first span of its trace.
    pub root: usize,
}

/// The lines as spans, in the order of the lines; those without a time are left out.
pub fn spans(lines: &[Line]) -> Vec<Span<'_>> {
    let mut found: Vec<Span<'_>> = Vec::new();
    let mut last: BTreeMap<Object, usize> = BTreeMap::new();
    for line in lines {
        let Some(ended) = parse_rfc3339(&line.time) else { continue };
        let recent = |at: &usize| ended.duration_since(found[*at].ended).as_secs() <= CAUSED_WITHIN;
        let own = (line.kind.to_ascii_lowercase().to_smolstr(), line.namespace.clone(), line.name.clone());
        let parent = reconciled(line).and_then(|object| last.get(&object));
        let parent =
            parent.filter(|at| recent(at)).or_else(|| last.get(&own).filter(|at| recent(at))).copied();
        let at = found.len();
        let root = parent.map_or(at, |parent| found[parent].root);
        found.push(Span { line, ended, parent, root });
        // A status reports; what follows from it was caused by what it reports.
        if line.outcome == "done" && line.subresource != "status" {
            last.insert(own, at);
        }
    }
    found
}

/// The object whose key was reconciled: controllers are named after the kind.
fn reconciled(line: &Line) -> Option<Object> {
    let kind = line.controller.split('-').next().filter(|kind| !kind.is_empty())?;
    let (namespace, name) = line.owner.split_once('/').unwrap_or(("", &line.owner));
    (!name.is_empty()).then(|| (kind.to_smolstr(), namespace.to_smolstr(), name.to_smolstr()))
}

/// The document that an OTLP receiver takes at `/v1/traces`.
pub fn otlp(lines: &[Line]) -> Value {
    let spans = spans(lines);
    let mut by_controller: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (at, span) in spans.iter().enumerate() {
        let of_controller = by_controller.entry(span.line.controller.as_str()).or_default();
        of_controller.push(document(&spans, at));
    }
    let resources = by_controller.into_iter().map(|(controller, spans)| {
        json!({
            "resource": {"attributes": [text("service.name", controller)]},
            "scopeSpans": [{"scope": {"name": "flyball-journal"}, "spans": spans}],
        })
    });
    json!({"resourceSpans": resources.collect::<Vec<_>>()})
}

fn document(spans: &[Span<'_>], at: usize) -> Value {
    let Span { line, ended, parent, root } = &spans[at];
    let end = ended.as_nanosecond();
    let object = match line.namespace.is_empty() {
        true => line.name.to_string(),
        false => format!("{}/{}", line.namespace, line.name),
    };
    let on = if line.subresource.is_empty() { String::new() } else { format!("/{}", line.subresource) };
    let mut span = json!({
        "traceId": format!("{:016x}{}", line.run.max(1), id(spans[*root].line)),
        "spanId": id(line),
        "name": format!("{} {}{on} {object}", line.action, line.kind),
        "kind": 3,
        "startTimeUnixNano": (end - i128::from(line.took) * 1000).to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": [
            text("k8s.object.kind", &line.kind),
            text("k8s.namespace.name", &line.namespace),
            text("k8s.object.name", &line.name),
            text("flyball.owner", &line.owner),
            text("flyball.why", &line.why),
            text("flyball.outcome", &line.outcome),
        ],
        // 1 is success, 2 a failure.
        "status": match line.outcome.as_str() {
            "done" => json!({"code": 1}),
            _ => json!({"code": 2, "message": line.detail}),
        },
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = json!(id(spans[*parent].line));
    }
    span
}

/// Eight bytes in hexadecimal, not all zero.
fn id(line: &Line) -> String {
    format!("{:08x}{:08x}", line.run & 0xffff_ffff, (line.id + 1) & 0xffff_ffff)
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `"12:00:01 deployment-controller ns/web create ReplicaSet ns/web-1"`, with a subresource after the kind.
    fn line(id: u64, words: &str) -> Line {
        let mut words = words.split(' ');
        let mut next = || words.next().unwrap();
        let (time, controller, owner, action) = (next(), next(), next(), next());
        let (kind, object) = (next(), next());
        let (kind, subresource) = kind.split_once('/').unwrap_or((kind, ""));
        let (namespace, name) = object.split_once('/').unwrap();
        Line {
            run: 7,
            id,
            time: format!("2026-03-01T{time}.000000Z"),
            controller: controller.into(),
            owner: owner.into(),
            action: action.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: subresource.into(),
            why: "because".into(),
            outcome: "done".into(),
            detail: String::new(),
            took: 1500,
        }
    }

    fn lines(text: &str) -> Vec<Line> {
        text.lines()
            .map(str::trim)
            .filter(|words| !words.is_empty())
            .enumerate()
            .map(|(id, words)| line(id as u64, words))
            .collect()
    }

    const ROLLOUT: &str = "
        12:00:00 horizontal-pod-autoscaler-controller ns/web update Deployment/scale ns/web
        12:00:01 deployment-controller ns/web create ReplicaSet ns/web-1
        12:00:02 replicaset-controller ns/web-1 create Pod ns/web-1-a
        12:00:03 job-controller ns/other create Pod ns/other-x
        12:00:04 scheduler ns/web-1-a create Pod/binding ns/web-1-a
        12:00:05 kubelet ns/web-1-a patch Pod/status ns/web-1-a
        12:00:06 deployment-controller ns/web update Deployment/status ns/web
        12:09:00 deployment-controller ns/web update ReplicaSet ns/web-1";

    #[test]
    fn one_change_is_one_trace_across_controllers() {
        let lines = lines(ROLLOUT);
        let spans = spans(&lines);
        let parents: Vec<_> = spans.iter().map(|span| span.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), None, Some(2), Some(4), Some(0), None]);
        let roots: Vec<_> = spans.iter().map(|span| span.root).collect();
        assert_eq!(roots, [0, 0, 0, 3, 0, 0, 0, 7], "what comes nine minutes later is another change");
    }

    #[test]
    fn the_document_is_what_otlp_receivers_take() {
        let document = otlp(&lines(ROLLOUT));
        let resources = document["resourceSpans"].as_array().unwrap();
        let names: Vec<_> = resources
            .iter()
            .map(|one| one["resource"]["attributes"][0]["value"]["stringValue"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "deployment-controller",
                "horizontal-pod-autoscaler-controller",
                "job-controller",
                "kubelet",
                "replicaset-controller",
                "scheduler"
            ]
        );
        let created = &resources[0]["scopeSpans"][0]["spans"][0];
        assert_eq!(created["name"], "create ReplicaSet ns/web-1");
        assert_eq!(created["traceId"], "00000000000000070000000700000001");
        assert_eq!(created["spanId"], "0000000700000002");
        assert_eq!(created["parentSpanId"], "0000000700000001");
        assert_eq!(created["endTimeUnixNano"], "1772366401000000000");
        assert_eq!(created["startTimeUnixNano"], "1772366400998500000");
    }
}
