//! Values inside objects by path, as scenarios write them: `status.conditions[type=Ready].status`, `spec.list[0]`,
//! `metadata.annotations['a.b/c']`, `items.length`.

use serde_json::Value;

/// The value at `path`; `Null` where there is none.
pub(super) fn dig(object: &Value, path: &str) -> Value {
    let mut current = object.clone();
    for part in parts(path) {
        current = step(&current, part);
        if current.is_null() {
            break;
        }
    }
    current
}

fn step(current: &Value, part: Part<'_>) -> Value {
    match (part, current) {
        (Part::Name("length"), Value::Array(items)) => items.len().into(),
        (Part::Name("length"), Value::Object(map)) => map.len().into(),
        (Part::Name("length"), Value::String(text)) => text.chars().count().into(),
        (Part::Name(name) | Part::Bracket(name), Value::Object(map)) => {
            map.get(name).cloned().unwrap_or_default()
        }
        (Part::Bracket(key), Value::Array(items)) => item(items, key).cloned().unwrap_or_default(),
        _ => Value::Null,
    }
}

fn item<'a>(items: &'a [Value], key: &str) -> Option<&'a Value> {
    if let Ok(index) = key.parse::<i64>() {
        let from_start = if index < 0 { index + i64::try_from(items.len()).ok()? } else { index };
        return items.get(usize::try_from(from_start).ok()?);
    }
    let (field, wanted) = key.split_once('=')?;
    items.iter().find(|item| plain(&item[field]) == wanted)
}

/// A value as text without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Name(&'a str),
    Bracket(&'a str),
}

fn parts(path: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']').unwrap_or(inside.len());
            parts.push(Part::Bracket(inside[..end].trim_matches(['\'', '"'])));
            rest = inside.get(end + 1..).unwrap_or_default();
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            if end > 0 {
                parts.push(Part::Name(&rest[..end]));
                rest = &rest[end..];
            } else {
                rest = &rest[1..];
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_what_paths_name() {
        let object = json!({
            "spec": {"list": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
            "metadata": {"annotations": {"a.b/c": "x"}, "name": "é"},
        });
        #[rustfmt::skip]
        let table = [
            ("spec.list[0].name", json!("a")), ("spec.list[-1].n", json!(2)), ("spec.list[name=b].n", json!(2)),
            ("spec.list[n=1].name", json!("a")), ("spec.list.length", json!(2)), ("spec.list[9]", json!(null)),
            ("metadata.annotations['a.b/c']", json!("x")), ("metadata.annotations[a.b/c]", json!("x")),
            ("metadata.name.length", json!(1)), ("nothing.at.all", json!(null)), ("spec.list[x", json!(null)),
        ];
        for (path, want) in table {
            assert_eq!(dig(&object, path), want, "{path}");
        }
    }
}
