//! `additionalPrinterColumns`: simple JSONPath expressions for the cells of `kubectl get`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::human_duration;

pub(super) struct Column {
    definition: Value,
    kind: String,
    path: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    All,
    Filter { field: Vec<String>, equals: String },
}

/// The columns of a version; the age of the object if there are none.
pub(super) fn columns_of(version: &Value) -> Vec<Column> {
    let age = || vec![json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
    let named = version["additionalPrinterColumns"].as_array().filter(|list| !list.is_empty()).cloned();
    named.unwrap_or_else(age).iter().map(column).collect()
}

fn column(spec: &Value) -> Column {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let definition = json!({
        "name": text("name"), "type": text("type"), "format": text("format"), "description": text("description"),
        "priority": spec["priority"].as_i64().unwrap_or(0),
    });
    Column { definition, kind: text("type"), path: parse(&text("jsonPath")) }
}

impl Column {
    pub(super) fn definition(&self) -> Value {
        self.definition.clone()
    }

    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = select(object, &self.path);
        let Some(first) = found.first() else { return Value::Null };
        match (self.kind.as_str(), first) {
            (_, Value::Null) => Value::Null,
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(at) => json!(human_duration(now.as_second() - at.as_second())),
                Err(_) => json!("<invalid>"),
            },
            ("integer" | "number" | "boolean", value) => (*value).clone(),
            (_, Value::String(text)) => json!(text),
            (_, value) => json!(value.to_string()),
        }
    }
}

/// Parses `.a.b[0].c[?(@.type=="Ready")].d`; an invalid path selects nothing.
fn parse(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('[') {
            let Some(end) = closing(tail) else { break };
            let inside = &tail[..end];
            rest = &tail[end + 1..];
            steps.push(if inside == "*" {
                Step::All
            } else if let Ok(index) = inside.parse() {
                Step::Index(index)
            } else if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
                let (field, value) = filter.split_once("==").unwrap_or((filter, ""));
                let field = field.trim().trim_start_matches("@.");
                let equals = value.trim().trim_matches(['"', '\'']).to_owned();
                Step::Filter { field: field.split('.').map(str::to_owned).collect(), equals }
            } else {
                Step::Field(inside.trim_matches(['"', '\'']).to_owned())
            });
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    if let Some((_, escaped)) = chars.next() {
                        name.push(escaped);
                    }
                }
                '.' | '[' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        rest = &rest[end..];
        if name == "*" {
            steps.push(Step::All);
        } else if !name.is_empty() {
            steps.push(Step::Field(name));
        } else if end == 0 && !rest.starts_with('[') {
            break;
        }
    }
    steps
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

fn select<'a>(object: &'a Value, path: &[Step]) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in path {
        found = found
            .into_iter()
            .flat_map(|value| -> Vec<&'a Value> {
                match step {
                    Step::Field(name) => value.get(name).into_iter().collect(),
                    Step::Index(at) => value.get(at).into_iter().collect(),
                    Step::All => match value {
                        Value::Array(items) => items.iter().collect(),
                        Value::Object(map) => map.values().collect(),
                        _ => Vec::new(),
                    },
                    Step::Filter { field, equals } => {
                        let matches = |item: &&Value| {
                            let mut at = *item;
                            for name in field {
                                at = &at[name.as_str()];
                            }
                            match at {
                                Value::String(text) => text == equals,
                                other => equals.parse::<Value>().is_ok_and(|wanted| wanted == *other),
                            }
                        };
                        value.as_array().into_iter().flatten().filter(matches).collect()
                    }
                }
            })
            .collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_select() {
        let object = json!({"spec": {"a.b": 1, "list": [{"n": "x"}, {"n": "y"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        #[rustfmt::skip]
        let table = [
            (".spec.list[1].n", json!(["y"])),
            (".spec.list[*].n", json!(["x", "y"])),
            (r".spec.a\.b", json!([1])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".nothing.here", json!([])),
            ("{.spec.list[0].n}", json!(["x"])),
        ];
        for (path, want) in table {
            assert_eq!(json!(select(&object, &parse(path))), want, "{path}");
        }
        for odd in ["", "[", ".", "..", "[?(", ".a[", "\\"] {
            let _ = parse(odd); // terminates
        }
    }
}
