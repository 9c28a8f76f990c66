//! Names of objects inside one resource: a namespace (empty for cluster-scoped objects) and a name.

use std::fmt;

use smol_str::SmolStr;

/// Identifies an object among those of its resource. Ordered by namespace, then name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: SmolStr,
    pub name: SmolStr,
}

impl Key {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<SmolStr>, name: impl Into<SmolStr>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<SmolStr>) -> Self {
        Self { namespace: SmolStr::default(), name: name.into() }
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_str())
    }

    /// Parses `namespace/name` or `name`.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        let valid = !name.is_empty() && !name.contains('/') && (!text.contains('/') || !namespace.is_empty());
        valid.then(|| Self::new(namespace, name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_both_scopes() {
        for (key, text) in [(Key::new("kube-system", "dns"), "kube-system/dns"), (Key::cluster("n1"), "n1")] {
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::parse(text), Some(key));
        }
        for bad in ["", "/", "a/", "/a", "a/b/c"] {
            assert_eq!(Key::parse(bad), None, "{bad:?}");
        }
    }
}
