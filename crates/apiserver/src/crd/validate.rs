//! Validation of custom objects against their schema, with the error messages of the real server. Its rules
//! (`x-kubernetes-validations`) are run by `rules`.

use regex::Regex;
use serde_json::Value;

use crate::invalid::{Cause, Fault};

/// Validates a whole object; its metadata is validated elsewhere.
pub(super) fn root(object: &Value, schema: &Value, causes: &mut Vec<Cause>) {
    let Some(map) = object.as_object() else { return };
    let rest: serde_json::Map<String, Value> =
        map.iter().filter(|(name, _)| *name != "metadata").map(|(n, v)| (n.clone(), v.clone())).collect();
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("metadata");
    }
    check(&Value::Object(rest), &schema, "", causes);
}

fn check(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(rules) = schema.as_object() else { return };
    if value.is_null() {
        if rules.get("nullable") != Some(&Value::Bool(true)) && rules.contains_key("type") {
            let expected = rules["type"].as_str().unwrap_or_default();
            causes.push(wrong_type(path, "null", expected));
        }
        return;
    }
    if let Some(expected) = rules.get("type").and_then(Value::as_str)
        && !has_type(value, expected)
    {
        causes.push(wrong_type(path, type_of(value), expected));
        return;
    }
    if rules.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
        && !(value.is_i64() || value.is_string())
    {
        causes.push(wrong_type(path, type_of(value), "integer,string"));
    }
    if let Some(allowed) = rules.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let texts: Vec<String> =
            allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        causes.push(Cause::not_supported(path, value.clone(), &texts));
    }
    match value {
        Value::Object(map) => check_object(map, schema, path, causes),
        Value::Array(items) => check_array(items, schema, path, causes),
        Value::String(text) => check_text(text, schema, path, causes),
        Value::Number(number) => check_number(number.as_f64().unwrap_or(0.0), value, schema, path, causes),
        _ => {}
    }
    check_combinations(value, schema, path, causes);
}

fn wrong_type(path: &str, found: &str, expected: &str) -> Cause {
    let detail = format!("{path} in body must be of type {expected}: {found:?}");
    Cause { fault: Fault::TypeInvalid, ..Cause::invalid(path, found, &detail) }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        other => type_of(value) == other,
    }
}

fn check_object(map: &serde_json::Map<String, Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            causes.push(Cause::required(join(path, name), ""));
        }
    }
    for (name, value) in map {
        let inner = schema["properties"].get(name).or(schema.get("additionalProperties"));
        if let Some(inner) = inner {
            check(value, inner, &join(path, name), causes);
        }
    }
    let count = |rule: &str| schema[rule].as_u64().map(|n| n as usize);
    if let Some(max) = count("maxProperties").filter(|max| map.len() > *max) {
        causes.push(Cause::too_many(path, map.len(), max));
    }
    if let Some(min) = count("minProperties").filter(|min| map.len() < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        causes.push(Cause::invalid(path, map.len(), &detail));
    }
}

fn check_array(items: &[Value], schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        check(item, &schema["items"], &format!("{path}[{at}]"), causes);
    }
    let count = |rule: &str| schema[rule].as_u64().map(|n| n as usize);
    if let Some(max) = count("maxItems").filter(|max| items.len() > *max) {
        causes.push(Cause::too_many(path, items.len(), max));
    }
    if let Some(min) = count("minItems").filter(|min| items.len() < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        causes.push(Cause::invalid(path, items.len(), &detail));
    }
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let id = |item: &Value| -> Value {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => keys.iter().map(|key| ((*key).to_owned(), item[*key].clone())).collect(),
            _ => item.clone(),
        }
    };
    if matches!(schema["x-kubernetes-list-type"].as_str(), Some("map" | "set")) {
        for (at, item) in items.iter().enumerate() {
            if items[..at].iter().any(|earlier| id(earlier) == id(item)) {
                causes.push(Cause::duplicate(format!("{path}[{at}]"), id(item)));
            }
        }
    }
}

fn check_text(text: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count();
    if let Some(max) = schema["maxLength"].as_u64().filter(|max| length as u64 > *max) {
        causes.push(Cause::too_long(path, max as usize));
    }
    if let Some(min) = schema["minLength"].as_u64().filter(|min| (length as u64) < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        causes.push(Cause::invalid(path, text, &detail));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Ok(regex) = Regex::new(pattern)
        && !regex.is_match(text)
    {
        causes.push(Cause::invalid(path, text, &format!("{path} in body should match '{pattern}'")));
    }
    let well_formed = match schema["format"].as_str() {
        Some("date-time") => text.parse::<jiff::Timestamp>().is_ok(),
        Some("date") => text.parse::<jiff::civil::Date>().is_ok(),
        Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
        Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
        Some("uuid") => uuid::Uuid::parse_str(text).is_ok(),
        _ => true,
    };
    if !well_formed {
        let format = schema["format"].as_str().unwrap_or_default();
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        causes.push(Cause::invalid(path, text, &detail));
    }
}

fn check_number(number: f64, value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut complain = |words: &str, bound: &Value| {
        causes.push(Cause::invalid(
            path,
            value.clone(),
            &format!("{path} in body should be {words} {bound}"),
        ));
    };
    if let Some(max) = schema["maximum"].as_f64() {
        if schema["exclusiveMaximum"] == true && number >= max {
            complain("less than", &schema["maximum"]);
        } else if number > max {
            complain("less than or equal to", &schema["maximum"]);
        }
    }
    if let Some(min) = schema["minimum"].as_f64() {
        if schema["exclusiveMinimum"] == true && number <= min {
            complain("greater than", &schema["minimum"]);
        } else if number < min {
            complain("greater than or equal to", &schema["minimum"]);
        }
    }
    if let Some(factor) = schema["multipleOf"].as_f64().filter(|factor| *factor != 0.0)
        && (number / factor).fract() != 0.0
    {
        complain("a multiple of", &schema["multipleOf"]);
    }
}

fn check_combinations(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let passes = |schema: &Value| {
        let mut faults = Vec::new();
        check(value, schema, path, &mut faults);
        faults.is_empty()
    };
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(value, part, path, causes);
    }
    let shown = if path.is_empty() { "<nil>" } else { path };
    if let Some(any) = schema["anyOf"].as_array()
        && !any.iter().any(passes)
    {
        let detail = format!("{shown} in body must validate at least one schema (anyOf)");
        causes.push(Cause::invalid(path, "", &detail));
    }
    if let Some(one) = schema["oneOf"].as_array() {
        let matching = one.iter().filter(|part| passes(part)).count();
        if matching != 1 {
            let found = if matching == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {matching} valid alternatives")
            };
            let detail = format!("{shown} in body must validate one and only one schema (oneOf). {found}");
            causes.push(Cause::invalid(path, "", &detail));
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object())
        && passes(not)
    {
        causes.push(Cause::invalid(path, "", &format!("{shown} in body must not validate the schema (not)")));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_read_as_the_real_servers() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "list": {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        }}}});
        #[rustfmt::skip]
        let table = [
            (json!({}), "spec.size: Required value"),
            (json!({"size": "x"}), "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""),
            (json!({"size": 0}), "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
            (json!({"size": 11}), "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"),
            (json!({"size": 1, "name": "A"}), "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"),
            (json!({"size": 1, "name": "abcdef"}), "spec.name: Too long: may not be more than 5 bytes"),
            (json!({"size": 1, "color": "green"}), "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""),
            (json!({"size": 1, "list": ["a", "b"]}), "spec.list: Too many: 2: must have at most 1 items"),
            (json!({"size": 1, "list": null}), "spec.list: Invalid value: \"null\": spec.list in body must be of type array: \"null\""),
        ];
        for (spec, want) in table {
            let mut causes = Vec::new();
            root(&json!({"kind": "X", "spec": spec}), &schema, &mut causes);
            let got: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
            let want = want.replace("1 items", "1 item");
            assert_eq!(got, [want]);
        }
    }
}
