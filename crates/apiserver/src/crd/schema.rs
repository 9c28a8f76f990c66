//! Pruning and defaulting by a structural schema, before an object is validated.

use serde_json::Value;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const ROOT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields of a whole object.
pub(super) fn prune_root(object: &mut Value, schema: &Value, unknown: &mut Vec<String>) {
    prune(object, schema, "", true, unknown);
}

fn prune(value: &mut Value, schema: &Value, path: &str, is_object: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            let inner = &schema["items"];
            for (at, item) in items.iter_mut().enumerate() {
                prune(item, inner, &format!("{path}[{at}]"), inner[EMBEDDED] == true, unknown);
            }
        }
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let additional = schema.get("additionalProperties").filter(|a| a.is_object() || **a == true);
            let preserve = schema[PRESERVE] == true || schema.is_null();
            map.retain(|name, _| {
                let known = properties.is_some_and(|p| p.contains_key(name))
                    || additional.is_some()
                    || preserve
                    || (is_object && ROOT.contains(&name.as_str()));
                if !known {
                    unknown.push(join(path, name));
                }
                known
            });
            for (name, inner_value) in map.iter_mut() {
                if is_object && ROOT.contains(&name.as_str()) {
                    continue;
                }
                let inner = properties.and_then(|p| p.get(name)).or(additional.filter(|a| a.is_object()));
                if let Some(inner) = inner {
                    prune(inner_value, inner, &join(path, name), inner[EMBEDDED] == true, unknown);
                }
            }
        }
        _ => {}
    }
}

/// Fills in defaults, from the outside in.
pub(super) fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| default(item, &schema["items"])),
        Value::Object(map) => {
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                let Some(preset) = inner.get("default") else { continue };
                let nullable = inner["nullable"] == true;
                let missing = map.get(name).is_none_or(|present| present.is_null() && !nullable);
                if missing {
                    map.insert(name.clone(), preset.clone());
                }
            }
            for (name, inner_value) in map.iter_mut() {
                let inner = schema["properties"].get(name).or(schema.get("additionalProperties"));
                if let Some(inner) = inner {
                    default(inner_value, inner);
                }
            }
        }
        _ => {}
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
    fn objects_are_pruned_and_defaulted() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
            "size": {"type": "integer", "default": 3},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"default": "v"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}}});
        let mut object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {}, "odd": 1, "spec": {
            "free": {"any": 1}, "map": {"m": {"z": 1}}, "list": [{"a": "b", "c": 1}]}});
        let mut unknown = Vec::new();
        prune_root(&mut object, &schema, &mut unknown);
        default(&mut object, &schema);
        assert_eq!(unknown, ["odd", "spec.list[0].c", "spec.map.m.z"]);
        assert_eq!(
            object["spec"],
            json!({"free": {"any": 1}, "map": {"m": {"k": "v"}}, "list": [{"a": "b"}], "size": 3})
        );
    }
}
