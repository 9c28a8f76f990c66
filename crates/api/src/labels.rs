//! Labels and annotations: small sorted maps of text, cheap to clone and, for labels, shared between objects.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use smol_str::SmolStr;

use crate::intern::{Interner, SharedKey, shared_str};

type Pairs = [(SmolStr, SmolStr)];

/// Whole label sets repeat: all pods of a ReplicaSet carry the same one.
static SETS: Interner<Pairs> = Interner::new();

/// A map from text to text, sorted by key. Cloning copies a pointer; the empty map allocates nothing.
#[derive(Clone, Default)]
pub struct Labels(Option<Arc<Pairs>>);

impl Labels {
    pub const EMPTY: Labels = Labels(None);

    pub fn get(&self, key: &str) -> Option<&str> {
        let pairs = self.pairs();
        let at = pairs.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        pairs.get(at).map(|(_, value)| value.as_str())
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.pairs().iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A copy in which `key` has `value`.
    pub fn with(&self, key: &str, value: &str) -> Self {
        let mut pairs = self.pairs().to_vec();
        match pairs.binary_search_by(|(k, _)| k.as_str().cmp(key)) {
            Ok(at) => pairs[at].1 = SmolStr::new(value),
            Err(at) => pairs.insert(at, (shared_str(key), SmolStr::new(value))),
        }
        Self(Some(pairs.into()))
    }

    /// A copy that has no `key`.
    pub fn without(&self, key: &str) -> Self {
        if !self.contains_key(key) {
            return self.clone();
        }
        self.filtered(|k| k != key)
    }

    /// A copy with only the entries whose key satisfies `keep`.
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept: Vec<_> = self.pairs().iter().filter(|(k, _)| keep(k)).cloned().collect();
        Self::from_sorted(kept)
    }

    /// The same map, sharing its storage with every other one that is equal.
    pub fn interned(self) -> Self {
        Self(self.0.map(|pairs| SETS.share(pairs)))
    }

    fn pairs(&self) -> &Pairs {
        self.0.as_deref().unwrap_or_default()
    }

    fn from_sorted(pairs: Vec<(SmolStr, SmolStr)>) -> Self {
        Self((!pairs.is_empty()).then(|| pairs.into()))
    }

    /// If a key occurs several times, the last entry is used, as in JSON.
    fn from_unsorted(mut pairs: Vec<(SmolStr, SmolStr)>) -> Self {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(&mut later.1, &mut kept.1);
            }
            same
        });
        Self::from_sorted(pairs)
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Labels {}

impl std::hash::Hash for Labels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.pairs().hash(state);
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let pairs = entries.into_iter();
        Self::from_unsorted(pairs.map(|(k, v)| (shared_str(k.as_ref()), SmolStr::new(v))).collect())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, |_| true)
    }
}

/// Reads a map, or null as the empty one, keeping only the keys that satisfy `keep`.
pub(crate) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    keep: impl Fn(&str) -> bool,
) -> Result<Labels, D::Error> {
    struct Entries<F>(F);
    impl<'de, F: Fn(&str) -> bool> Visitor<'de> for Entries<F> {
        type Value = Labels;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_unit<E>(self) -> Result<Labels, E> {
            Ok(Labels::EMPTY)
        }

        fn visit_none<E>(self) -> Result<Labels, E> {
            Ok(Labels::EMPTY)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Labels, D::Error> {
            deserializer.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
            let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
            while let Some(SharedKey(key)) = map.next_key()? {
                if (self.0)(&key) {
                    pairs.push((key, map.next_value::<SmolStr>()?));
                } else {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
            Ok(Labels::from_unsorted(pairs))
        }
    }
    deserializer.deserialize_option(Entries(keep))
}

/// `#[serde(deserialize_with = "labels::interned")]`: for maps that repeat as a whole.
pub(crate) fn interned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    Ok(Labels::deserialize(deserializer)?.interned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_the_last_of_a_key_wins() {
        let labels: Labels = serde_json::from_str(r#"{"b":"1","a":"2","b":"3"}"#).unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"a":"2","b":"3"}"#);
        assert_eq!(labels.get("b"), Some("3"));
        assert_eq!(labels.get("c"), None);
    }

    #[test]
    fn changes_are_copies() {
        let one: Labels = [("a", "1")].into_iter().collect();
        let two = one.with("b", "2").with("a", "3");
        assert_eq!(format!("{two:?}"), r#"{"a": "3", "b": "2"}"#);
        assert_eq!(two.without("b").without("zzz").without("a"), Labels::EMPTY);
        assert_eq!(one.get("a"), Some("1"));
    }

    #[test]
    fn null_and_nothing_are_the_empty_map() {
        assert_eq!(serde_json::from_str::<Labels>("null").unwrap(), Labels::EMPTY);
        assert_eq!(serde_json::from_str::<Labels>("{}").unwrap(), Labels::EMPTY);
    }

    #[test]
    fn equal_sets_share_storage() {
        let make = || [("app", "web"), ("tier", "front")].into_iter().collect::<Labels>().interned();
        let (a, b) = (make(), make());
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
    }
}
