//! Reads and writes JSON objects by dotted path (`spec.template.metadata`). Reading never fails: a missing value, or one of
//! another type, reads as empty.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// Reading and writing by dotted path. Keys that contain dots (labels) are looked up in `map(path)`.
pub(crate) trait Json {
    /// The value at a path; null when there is none.
    fn at(&self, path: &str) -> &Value;
    /// The value at a path, mutable; `None` if it does not exist.
    fn at_mut(&mut self, path: &str) -> Option<&mut Value>;
    /// Sets the value at a path; missing objects on the path are created.
    fn put(&mut self, path: &str, value: impl Into<Value>);
    /// Removes the value at a path.
    fn pull(&mut self, path: &str) -> Option<Value>;

    /// Whether the value is present.
    fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    /// Text, or the empty text.
    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or("")
    }

    fn int(&self, path: &str) -> Option<i64> {
        self.at(path).as_i64()
    }

    /// Whether the value is `true`.
    fn flag(&self, path: &str) -> bool {
        self.at(path) == &Value::Bool(true)
    }

    /// The items of a list.
    fn items(&self, path: &str) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    /// The items of a list, mutable.
    fn items_mut(&mut self, path: &str) -> &mut [Value] {
        match self.at_mut(path) {
            Some(Value::Array(items)) => items,
            _ => &mut [],
        }
    }

    /// The entries of an object.
    fn map(&self, path: &str) -> Option<&Map<String, Value>> {
        self.at(path).as_object()
    }

    /// The entries of an object, which is created if it is missing.
    fn map_mut(&mut self, path: &str) -> Option<&mut Map<String, Value>> {
        if !self.at(path).is_object() {
            self.put(path, Map::new());
        }
        self.at_mut(path).and_then(Value::as_object_mut)
    }

    /// Sets the value at a path if there is none.
    fn or_put(&mut self, path: &str, value: impl Into<Value>) {
        if !self.has(path) {
            self.put(path, value);
        }
    }

    /// An entry of a map whose key may contain dots: a label, an annotation.
    fn entry(&self, path: &str, key: &str) -> Option<&str> {
        self.map(path)?.get(key)?.as_str()
    }

    /// Sets an entry of a map whose key may contain dots.
    fn put_entry(&mut self, path: &str, key: &str, value: impl Into<Value>) {
        if let Some(map) = self.map_mut(path) {
            map.insert(key.to_owned(), value.into());
        }
    }
}

impl Json for Value {
    fn at(&self, path: &str) -> &Value {
        if path.is_empty() {
            return self;
        }
        path.split('.').try_fold(self, |value, key| value.get(key)).unwrap_or(&NULL)
    }

    fn at_mut(&mut self, path: &str) -> Option<&mut Value> {
        if path.is_empty() {
            return Some(self);
        }
        path.split('.').try_fold(self, |value, key| value.get_mut(key))
    }

    fn put(&mut self, path: &str, value: impl Into<Value>) {
        let mut here = self;
        for key in path.split('.') {
            if !here.is_object() {
                *here = Value::Object(Map::new());
            }
            let Value::Object(map) = here else { return };
            here = map.entry(key.to_owned()).or_insert(Value::Null);
        }
        *here = value.into();
    }

    fn pull(&mut self, path: &str) -> Option<Value> {
        let (parent, key) = match path.rsplit_once('.') {
            Some((parent, key)) => (self.at_mut(parent)?, key),
            None => (self, path),
        };
        parent.as_object_mut()?.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_and_write() {
        let mut object = json!({"spec": {"replicas": 2, "items": [1]}});
        assert_eq!(object.int("spec.replicas"), Some(2));
        assert_eq!(object.text("spec.replicas"), "");
        assert_eq!(object.text("spec.nowhere.at.all"), "");
        object.or_put("spec.replicas", 5);
        object.or_put("status.phase", "Pending");
        object.put("spec.replicas.deep", true);
        assert_eq!(object.pull("spec.items"), Some(json!([1])));
        assert_eq!(object.pull("spec.items"), None);
        object.put_entry("metadata.labels", "a.b/c", "d");
        assert_eq!(object.entry("metadata.labels", "a.b/c"), Some("d"));
        let want = json!({
            "metadata": {"labels": {"a.b/c": "d"}}, "spec": {"replicas": {"deep": true}}, "status": {"phase": "Pending"},
        });
        assert_eq!(object, want);
    }
}
