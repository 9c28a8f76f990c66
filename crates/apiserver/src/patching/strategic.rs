//! Strategic merge patch: a merge patch that merges keyed lists by key, with directives (`$patch`,
//! `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::kinds::schema::{Patch, Schema, Shape, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Applies `patch` to an object of type `kind`.
pub(crate) fn strategic(
    schema: &Schema,
    kind: &Type,
    object: &mut Value,
    patch: &Value,
) -> Result<(), ApiError> {
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request("error decoding patch: a strategic merge patch must be an object"));
    };
    match object {
        Value::Object(target) => Merge { schema }.object(target, patch, Some(kind)),
        _ => Err(ApiError::bad_request("error decoding patch: only an object can be patched")),
    }
}

struct Merge<'a> {
    schema: &'a Schema,
}

impl<'a> Merge<'a> {
    fn object(
        &self,
        target: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        kind: Option<&'a Type>,
    ) -> Done {
        match patch.get(DIRECTIVE).and_then(Value::as_str) {
            Some("replace") => {
                *target = without_directives(patch);
                return Ok(());
            }
            Some("delete") => {
                target.clear();
                return Ok(());
            }
            Some("merge") | None => {}
            Some(other) => return Err(bad(format!("unknown patch type: {other}"))),
        }
        if let Some(keep) = patch.get(RETAIN).and_then(Value::as_array) {
            target.retain(|key, _| keep.iter().any(|k| k == key));
        }
        for (key, gone) in patch.iter().filter_map(|(key, value)| Some((key.strip_prefix(REMOVE)?, value))) {
            let gone = gone.as_array().ok_or_else(|| bad(format!("{REMOVE}{key} must be a list")))?;
            if let Some(Value::Array(items)) = target.get_mut(key) {
                items.retain(|item| !gone.contains(item));
            }
        }
        let list_of = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let originals: BTreeMap<String, Vec<Value>> =
            patch.keys().filter_map(|key| Some((key.clone(), list_of(target.get(key)?)))).collect();
        for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
            self.field(target, key, value, kind)?;
        }
        for (key, order) in patch.iter().filter_map(|(key, value)| Some((key.strip_prefix(ORDER)?, value))) {
            let field = kind.and_then(|kind| kind.field(key));
            let merge_key = match field.map(|field| field.patch) {
                Some(Patch::MergeList(key) | Patch::MergeListRetainKeys(key)) => key,
                _ => continue,
            };
            if let (Some(Value::Array(items)), Some(order)) = (target.get_mut(key), order.as_array()) {
                let before = originals.get(key).cloned().unwrap_or_else(|| items.clone());
                set_order(items, order, &before, merge_key);
            }
        }
        Ok(())
    }

    fn field(
        &self,
        target: &mut Map<String, Value>,
        key: &str,
        value: &Value,
        kind: Option<&'a Type>,
    ) -> Done {
        let field = kind.and_then(|kind| kind.field(key));
        let inner = field.and_then(|field| self.item_type(&field.shape));
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(patch) => {
                if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                    target.remove(key);
                    return Ok(());
                }
                if field.is_some_and(|field| field.patch == Patch::Replace) {
                    target.insert(key.to_owned(), Value::Object(without_directives(patch)));
                    return Ok(());
                }
                let into = target.entry(key).or_insert_with(|| Value::Object(Map::new()));
                if !into.is_object() {
                    *into = Value::Object(Map::new());
                }
                if let Value::Object(into) = into {
                    self.object(into, patch, inner)?;
                }
            }
            Value::Array(patch) => match field.map(|field| field.patch) {
                Some(Patch::MergeList(merge_key) | Patch::MergeListRetainKeys(merge_key)) => {
                    let into = target.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                    if !into.is_array() {
                        *into = Value::Array(Vec::new());
                    }
                    if let Value::Array(into) = into {
                        let before = into.clone();
                        self.list(into, patch, merge_key, inner)?;
                        set_order(into, patch, &before, merge_key);
                    }
                }
                _ => {
                    target.insert(key.to_owned(), Value::Array(patch.iter().map(plain).collect()));
                }
            },
            scalar => {
                target.insert(key.to_owned(), scalar.clone());
            }
        }
        Ok(())
    }

    fn item_type(&self, shape: &Shape) -> Option<&'a Type> {
        match shape {
            Shape::Object(id) => Some(self.schema.get(*id)),
            Shape::List(item) => self.item_type(item),
            _ => None,
        }
    }

    fn list(
        &self,
        target: &mut Vec<Value>,
        patch: &[Value],
        merge_key: &str,
        kind: Option<&'a Type>,
    ) -> Done {
        let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
        if patch
            .iter()
            .any(|item| directive(item).as_deref() == Some("replace") && item.get(merge_key).is_none())
        {
            let rest = patch.iter().filter(|item| directive(item).is_none());
            *target = rest.map(plain).collect();
            return Ok(());
        }
        for item in patch {
            let Value::Object(map) = item else {
                if !target.contains(item) {
                    target.push(item.clone());
                }
                continue;
            };
            let Some(id) = map.get(merge_key) else {
                return Err(bad(format!("map: {item} does not contain declared merge key: {merge_key}")));
            };
            let place = target.iter().position(|each| each.get(merge_key) == Some(id));
            match (directive(item).as_deref(), place) {
                (Some("delete"), _) => target.retain(|each| each.get(merge_key) != Some(id)),
                (Some("replace"), Some(at)) => target[at] = plain(item),
                (_, Some(at)) => {
                    if let Value::Object(into) = &mut target[at] {
                        self.object(into, map, kind)?;
                    }
                }
                (_, None) => {
                    let mut fresh = Map::new();
                    self.object(&mut fresh, map, kind)?;
                    target.push(Value::Object(fresh));
                }
            }
        }
        Ok(())
    }
}

type Done = Result<(), ApiError>;

fn bad(text: String) -> ApiError {
    ApiError::bad_request(text)
}

/// A patch value as it would be stored: without directives, without nulls.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

fn without_directives(map: &Map<String, Value>) -> Map<String, Value> {
    let kept = map.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| (key.clone(), plain(value))).collect()
}

/// Sorts a merged list. Items that the patch names keep the order of the patch, the others their own order. Between an item of
/// each group, the order of the old list decides; an item that is not in the old list comes first.
///
/// Upstream: apimachinery pkg/util/strategicpatch, mergeSortedSlice.
fn set_order(items: &mut Vec<Value>, named: &[Value], before: &[Value], merge_key: &str) {
    let id = |item: &Value| if merge_key.is_empty() { item.clone() } else { item[merge_key].clone() };
    let place = |list: &[Value], item: &Value| list.iter().position(|each| id(each) == id(item));
    let (mut patched, mut others): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|item| place(named, item).is_some());
    patched.sort_by_key(|item| place(named, item));
    others.sort_by_key(|item| place(before, item));
    let mut patched = patched.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    while let (Some(other), Some(next)) = (others.peek(), patched.peek()) {
        let older = match (place(before, other), place(before, next)) {
            (Some(other), Some(next)) => other < next,
            _ => false,
        };
        items.extend(if older { others.next() } else { patched.next() });
    }
    items.extend(patched);
    items.extend(others);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::schema::builtin;

    fn pod(mut object: Value, patch: Value) -> Value {
        let kind = builtin().kind("v1", "Pod").unwrap();
        strategic(builtin(), kind, &mut object, &patch).unwrap();
        object
    }

    #[test]
    fn lists_merge_by_key_and_obey_directives() {
        let base = || json!({"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]}});
        let containers = |patch| pod(base(), json!({"spec": patch}))["spec"]["containers"].clone();
        #[rustfmt::skip]
        let table = [
            ("merge", json!({"containers": [{"name": "a", "image": "2"}]}),
                json!([{"name": "a", "image": "2", "args": ["x"]}, {"name": "b", "image": "1"}])),
            ("what is new goes ahead", json!({"containers": [{"name": "c", "image": "3"}]}),
                json!([{"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}])),
            ("delete an item", json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!([{"name": "b", "image": "1"}])),
            ("replace the list", json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}), json!([{"name": "z"}])),
            ("null drops a field", json!({"containers": [{"name": "a", "args": null}]}),
                json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
            ("lists without a key are replaced", json!({"containers": [{"name": "a", "args": ["y"]}]}),
                json!([{"name": "a", "image": "1", "args": ["y"]}, {"name": "b", "image": "1"}])),
            ("order", json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "5"}]}),
                json!([{"name": "b", "image": "1"}, {"name": "a", "image": "5", "args": ["x"]}])),
        ];
        for (case, patch, want) in table {
            assert_eq!(containers(patch), want, "{case}");
        }
    }

    #[test]
    fn primitive_lists_maps_and_retained_keys() {
        let finalizers = pod(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}),
        );
        assert_eq!(finalizers["metadata"]["finalizers"], json!(["c", "b"]));
        let labels = pod(
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"b": "2", "a": null}}}),
        );
        assert_eq!(labels["metadata"]["labels"], json!({"b": "2"}));
        let volume = pod(
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}}),
        );
        assert_eq!(volume["spec"]["volumes"], json!([{"name": "v", "secret": {"secretName": "s"}}]));
        let owners = pod(
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}], "uid": "7"}}),
        );
        assert_eq!(owners["metadata"], json!({"ownerReferences": [], "uid": "7"}));
    }
}
