//! The language of the tables.
//!
//! ```text
//! ## name of a case
//! POST /api/v1/namespaces/$NS/pods {"metadata": …}       a request; a body may go on over indented lines
//! 201 {"spec": {"restartPolicy": "Always"}}              its status, and what its answer contains
//! ```
//!
//! PATCH is followed by `json`, `merge`, `strategic` or `apply`; `as TOKEN` and `accept TYPE` may follow the path.
//! `SOON` before a request repeats it until its status is the expected one, and `UNTIL` until its whole answer is: the real
//! server's admission learns of objects through its own watches, shortly after the response.
//! `WATCH path` collects the lines of a one-second watch into a list. `$NS` is the case's namespace.
//! `$HOOK`, `$PORT` and `$CA` are the webhook server of `hooks.rs`, its port and its authority. `$1`, `$2`, …
//! are uid and resourceVersion of earlier answers (`$1.uid`, `$1.rv`, `$1.token`).
//! In an expectation, objects may have more fields, lists must have as many items; `"<any>"` is anything that is
//! there, `"<absent>"` must not be there, `"~text"` contains a text.

use std::time::Duration;

use bytes::Bytes;
use flyball_api::protobuf::Envelope;
use http::Request;
use serde_json::{Value, json};

use crate::backend::{Answer, Backend};
use crate::hooks::Hooks;
use crate::message;

pub(crate) struct Case {
    pub(crate) name: String,
    steps: Vec<Step>,
}

struct Step {
    line: String,
    expect: String,
}

pub(crate) fn parse(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("## ") {
            cases.push(Case { name: format!("{file}: {name}"), steps: Vec::new() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{file}: a step before the first case: {line}"));
        if line.starts_with(char::is_whitespace) {
            let step = case.steps.last_mut().expect("a continued line follows another");
            let into = if step.expect.is_empty() { &mut step.line } else { &mut step.expect };
            into.push(' ');
            into.push_str(line.trim());
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            case.steps.last_mut().expect("an answer follows a request").expect = line.to_owned();
        } else {
            case.steps.push(Step { line: line.to_owned(), expect: String::new() });
        }
    }
    cases
}

impl Case {
    /// Runs the case; gives the number of checks and what differed.
    pub(crate) async fn run(
        &self,
        backend: &Backend,
        namespace: &str,
        hooks: &Hooks,
    ) -> (usize, Vec<String>) {
        let object = json!({"metadata": {"name": namespace}});
        let made = Request::post("/api/v1/namespaces")
            .header("authorization", "Bearer admin-token")
            .header("content-type", "application/json")
            .body(Bytes::from(object.to_string()))
            .unwrap();
        assert_eq!(backend.send(made).await.code, 201, "the namespace {namespace}");
        let mut answers: Vec<Value> = Vec::new();
        let (mut checks, mut faults) = (0, Vec::new());
        for step in &self.steps {
            let fill = |text: &str| {
                let text = text.replace("$HOOK", &hooks.url).replace("$CA", &hooks.ca);
                let text = text.replace("$PORT", &hooks.port.to_string());
                substitute(&text, namespace, &answers)
            };
            let expect = fill(&step.expect);
            let (code, wanted) = expect.split_once(' ').unwrap_or((&expect, ""));
            let answer = match step.line.split_once(' ') {
                Some(("SOON", line)) => soon(backend, &fill(line), code, "").await,
                Some(("UNTIL", line)) => soon(backend, &fill(line), code, wanted).await,
                _ => backend.send(request(&fill(&step.line))).await,
            };
            let body = read(&answer.body, step.line.starts_with("WATCH") && answer.code == 200);
            if !code.is_empty() {
                checks += 1;
                if code != answer.code.to_string() {
                    faults.push(format!(
                        "{}\n  {}\n  status {} instead of {code}: {body}",
                        self.name, step.line, answer.code
                    ));
                    break;
                }
            }
            if !wanted.is_empty() {
                let wanted: Value =
                    serde_json::from_str(wanted).unwrap_or_else(|e| panic!("{}: {wanted}: {e}", self.name));
                let mut found = Vec::new();
                let shown = match wanted.get("Warning") {
                    Some(_) => json!({"Warning": answer.warning}),
                    None => body.clone(),
                };
                checks += contains(&shown, &wanted, "", &mut found);
                let lines = found.into_iter().map(|f| format!("{}\n  {}\n  {f}", self.name, step.line));
                faults.extend(lines);
            }
            answers.push(body);
        }
        (checks, faults)
    }
}

/// The answer with the wanted status and, if it is given, the wanted body; or the last one of about ten seconds.
async fn soon(backend: &Backend, line: &str, code: &str, wanted: &str) -> Answer {
    let wanted: Value = serde_json::from_str(wanted).unwrap_or_default();
    let is_it = |answer: &Answer| {
        let mut found = Vec::new();
        if !wanted.is_null() {
            contains(&read(&answer.body, false), &wanted, "", &mut found);
        }
        answer.code.to_string() == code && found.is_empty()
    };
    let mut answer = backend.send(request(line)).await;
    for _ in 0..100 {
        if is_it(&answer) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = backend.send(request(line)).await;
    }
    answer
}

fn substitute(text: &str, namespace: &str, answers: &[Value]) -> String {
    let mut text = text.replace("$NS", namespace);
    for (at, answer) in answers.iter().enumerate().rev() {
        for (field, value) in [
            ("uid", &answer["metadata"]["uid"]),
            ("rv", &answer["metadata"]["resourceVersion"]),
            ("continue", &answer["metadata"]["continue"]),
            ("token", &answer["status"]["token"]),
        ] {
            text = text.replace(&format!("${}.{field}", at + 1), value.as_str().unwrap_or_default());
        }
    }
    text
}

fn request(line: &str) -> Request<Bytes> {
    let mut rest = line;
    let mut word = || {
        let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail.trim_start();
        first.to_owned()
    };
    let method = word();
    let mut path = word();
    let (mut media, mut token, mut accept) =
        ("application/json", "admin-token".to_owned(), "application/json".to_owned());
    loop {
        let before = rest;
        let mut word = || {
            let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = tail.trim_start();
            first.to_owned()
        };
        match word().as_str() {
            "json" => media = "application/json-patch+json",
            "merge" => media = "application/merge-patch+json",
            "strategic" => media = "application/strategic-merge-patch+json",
            "apply" => media = "application/apply-patch+yaml",
            "xml" => media = "application/xml",
            "as" => token = word(),
            "accept" => accept = word(),
            _ => {
                rest = before;
                break;
            }
        }
    }
    let mut method = method.as_str();
    if method == "WATCH" {
        method = "GET";
        let sign = if path.contains('?') { '&' } else { '?' };
        path = format!("{path}{sign}watch=1&timeoutSeconds=1");
    }
    let mut builder = Request::builder().method(method).uri(&path).header("accept", accept);
    if token != "nobody" {
        builder = builder.header("authorization", format!("Bearer {token}"));
    }
    if !rest.is_empty() {
        builder = builder.header("content-type", media);
    }
    builder.body(Bytes::copy_from_slice(rest.as_bytes())).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn read(body: &Bytes, watch: bool) -> Value {
    if Envelope::is_there(body) {
        return json!({"protobuf": message::shown(body)});
    }
    if watch {
        // The first byte of an event's length.
        if body.first() == Some(&0) {
            let events = message::events(body).into_iter();
            return events.filter(|event| !is_plain(event)).map(|event| json!({"protobuf": event})).collect();
        }
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap_or_default());
        return lines.filter(|line| !is_plain(line)).collect();
    }
    serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)))
}

/// Whether an event is a plain bookmark: when those come is up to the server.
fn is_plain(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"].is_null()
}

/// Looks for `wanted` in `found`; gives the number of values compared.
fn contains(found: &Value, wanted: &Value, path: &str, faults: &mut Vec<String>) -> usize {
    match (found, wanted) {
        (found, Value::Object(wanted)) if found.is_object() => wanted
            .iter()
            .map(|(key, value)| {
                let inner = format!("{path}.{key}");
                match (found.get(key), value.as_str()) {
                    (None, Some("<absent>")) => 1,
                    (None, _) => {
                        faults.push(format!("{inner}: nothing there, wanted {value}"));
                        1
                    }
                    (Some(here), Some("<absent>")) => {
                        faults.push(format!("{inner}: {here}, wanted nothing"));
                        1
                    }
                    (Some(here), _) => contains(here, value, &inner, faults),
                }
            })
            .sum::<usize>()
            .max(1),
        (Value::Array(found), Value::Array(wanted)) if found.len() == wanted.len() => found
            .iter()
            .zip(wanted)
            .enumerate()
            .map(|(at, (found, wanted))| contains(found, wanted, &format!("{path}[{at}]"), faults))
            .sum::<usize>()
            .max(1),
        (found, Value::String(text)) if text == "<any>" => {
            if found.is_null() {
                faults.push(format!("{path}: null, wanted anything"));
            }
            1
        }
        (found, Value::String(text)) if text.starts_with('~') => {
            if !found.as_str().is_some_and(|found| found.contains(&text[1..])) {
                faults.push(format!("{path}: {found}, wanted it to contain {:?}", &text[1..]));
            }
            1
        }
        (found, wanted) => {
            if found != wanted {
                faults.push(format!("{path}: {found}, wanted {wanted}"));
            }
            1
        }
    }
}
