//! JSON merge patches (RFC 7386): from two states to a patch, and back.

use serde_json::{Map, Value};

/// The patch that makes `new` of `old`, if they differ. Lists are replaced as a whole.
pub fn diff(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let gone =
                old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null));
            let changed = new.iter().filter_map(|(name, value)| {
                let patch = match old.get(name) {
                    Some(before) => diff(before, value)?,
                    None => value.clone(),
                };
                Some((name.clone(), patch))
            });
            let patch: Map<String, Value> = gone.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (old != new).then(|| new.clone()),
    }
}

/// Applies a patch.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(fields.remove(name)),
            value => apply(fields.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_has_what_differs_and_makes_the_one_of_the_other() {
        #[rustfmt::skip]
        let table = [
            // old                         new                              patch
            (json!({"a": 1}),              json!({"a": 1}),                 None),
            (json!({"a": 1}),              json!({"a": 2}),                 Some(json!({"a": 2}))),
            (json!({"a": 1, "b": 1}),      json!({"a": 1}),                 Some(json!({"b": null}))),
            (json!({"a": {"x": 1}}),       json!({"a": {"x": 1, "y": {}}}), Some(json!({"a": {"y": {}}}))),
            (json!({"a": [1, 2]}),         json!({"a": [1, 2, 3]}),         Some(json!({"a": [1, 2, 3]}))),
            (json!({"a": {"x": 1}}),       json!({"a": 7}),                 Some(json!({"a": 7}))),
            (json!({"a": 7}),              json!({"a": {"x": 1}}),          Some(json!({"a": {"x": 1}}))),
        ];
        for (old, new, want) in table {
            let patch = diff(&old, &new);
            assert_eq!(patch, want, "{old} to {new}");
            let mut made = old.clone();
            if let Some(patch) = &patch {
                apply(&mut made, patch);
            }
            assert_eq!(made, new, "{old} with {patch:?}");
        }
    }
}
