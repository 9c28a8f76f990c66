//! Sets of fields in the format of `managedFields`: a tree with the path elements `f:name`, `k:{"key":"value"}` and `v:value`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A set of paths into an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Whether the path itself is in the set.
    pub(super) here: bool,
    pub(super) below: BTreeMap<String, Set>,
}

impl Set {
    pub(super) fn leaf() -> Self {
        Self { here: true, below: BTreeMap::new() }
    }

    /// Reads `fieldsV1`.
    pub(super) fn read(fields: &Value) -> Self {
        let mut set = Set::default();
        for (step, inner) in fields.as_object().into_iter().flatten() {
            if step == "." {
                set.here = true;
                continue;
            }
            let mut child = Set::read(inner);
            if inner.as_object().is_none_or(Map::is_empty) {
                child.here = true;
            }
            set.below.insert(step.clone(), child);
        }
        set
    }

    /// Writes `fieldsV1`.
    pub(super) fn write(&self) -> Value {
        let mut out = Map::new();
        if self.here && !self.below.is_empty() {
            out.insert(".".to_owned(), json!({}));
        }
        for (step, child) in &self.below {
            out.insert(step.clone(), child.write());
        }
        Value::Object(out)
    }

    /// Empty subtrees are never stored, so children need not be checked.
    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.is_empty()
    }

    pub(super) fn union(&mut self, other: &Set) {
        self.here |= other.here;
        for (step, child) in &other.below {
            self.below.entry(step.clone()).or_default().union(child);
        }
    }

    /// Removes exactly the paths that are in `other`.
    pub(super) fn subtract(&mut self, other: &Set) {
        self.here &= !other.here;
        for (step, child) in &other.below {
            if let Some(own) = self.below.get_mut(step) {
                own.subtract(child);
                if own.is_empty() {
                    self.below.remove(step);
                }
            }
        }
    }

    /// Removes the paths that are in `other`, and everything below them.
    pub(super) fn subtract_below(&mut self, other: &Set) {
        if other.here && other.below.is_empty() {
            *self = Set::default();
            return;
        }
        self.here &= !other.here;
        for (step, child) in &other.below {
            if let Some(own) = self.below.get_mut(step) {
                own.subtract_below(child);
                if own.is_empty() {
                    self.below.remove(step);
                }
            }
        }
    }

    pub(super) fn intersection(&self, other: &Set) -> Set {
        let both = self.below.iter().filter_map(|(step, child)| {
            let common = child.intersection(other.below.get(step)?);
            (!common.is_empty()).then(|| (step.clone(), common))
        });
        Set { here: self.here && other.here, below: both.collect() }
    }

    /// All paths, printed: `.spec.containers[name="a"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect("", &mut out);
        out
    }

    fn collect(&self, path: &str, out: &mut Vec<String>) {
        if self.here {
            out.push(path.to_owned());
        }
        for (step, child) in &self.below {
            child.collect(&format!("{path}{}", print_step(step)), out);
        }
    }

    /// Removes the fields that only the server writes, which have no owner.
    pub(super) fn strip(&mut self) {
        const META: [&str; 9] = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
            "clusterName",
        ];
        for root in ["f:apiVersion", "f:kind"] {
            self.below.remove(root);
        }
        if let Some(metadata) = self.below.get_mut("f:metadata") {
            metadata.here = false;
            for field in META {
                metadata.below.remove(&format!("f:{field}"));
            }
            if metadata.is_empty() {
                self.below.remove("f:metadata");
            }
        }
    }
}

fn print_step(step: &str) -> String {
    match step.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("k", keys)) => {
            let keys: Value = serde_json::from_str(keys).unwrap_or_default();
            let parts = keys.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={value}"));
            format!("[{}]", parts.collect::<Vec<_>>().join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        _ => format!("[{step}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_read_write_and_combine() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}}}});
        let mut set = Set::read(&fields);
        assert_eq!(set.write(), fields);
        assert_eq!(
            set.paths(),
            [
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.containers[name=\"x\"]",
                ".spec.containers[name=\"x\"].image"
            ]
        );
        let other = Set::read(&json!({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {"f:image": {}}}}}));
        assert_eq!(set.intersection(&other).paths(), [".spec.containers[name=\"x\"].image"]);
        set.subtract(&other);
        assert_eq!(set.paths().len(), 3);
    }
}
