//! Values that repeat across thousands of objects (long strings, label sets, container lists) are kept once.
//!
//! Each time a table has doubled, entries without other users are removed.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxBuildHasher;
use serde::de::{self, Deserializer, Visitor};
use smol_str::SmolStr;

const SHARDS: usize = 16;
/// Shards with fewer entries are not swept.
const SWEEP_FLOOR: usize = 256;
/// What `SmolStr` stores without a heap allocation.
const INLINE: usize = 23;

/// One table of shared values.
pub struct Interner<T: ?Sized> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

struct Shard<T: ?Sized> {
    values: HashSet<Arc<T>, FxBuildHasher>,
    sweep_at: usize,
}

impl<T: ?Sized + Hash + Eq> Interner<T> {
    pub(crate) const fn new() -> Self {
        Self {
            shards: [const {
                Mutex::new(Shard { values: HashSet::with_hasher(FxBuildHasher), sweep_at: SWEEP_FLOOR })
            }; SHARDS],
        }
    }

    /// The shared value equal to `value`; created if there is none.
    pub(crate) fn share<V>(&self, value: V) -> Arc<T>
    where
        V: std::borrow::Borrow<T> + Into<Arc<T>>,
    {
        let hash = FxBuildHasher.hash_one(value.borrow());
        // The table uses the low bits of the same hash: pick the shard by the high ones.
        let shard = &self.shards[(hash >> 60) as usize % SHARDS];
        // A poisoned lock is fine: every change to the set is one call.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shard.values.get(value.borrow()) {
            return Arc::clone(known);
        }
        if shard.values.len() >= shard.sweep_at {
            shard.values.retain(|shared| Arc::strong_count(shared) > 1);
            shard.sweep_at = (shard.values.len() * 2).max(SWEEP_FLOOR);
            let room = shard.sweep_at;
            shard.values.shrink_to(room);
        }
        let shared: Arc<T> = value.into();
        shard.values.insert(Arc::clone(&shared));
        shared
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap().values.len()).sum()
    }
}

/// Element types of lists that repeat as a whole from object to object.
pub trait Repeats: Hash + Eq + Sized + 'static {
    #[doc(hidden)]
    fn table() -> &'static Interner<[Self]>;
}

/// An immutable list that shares its storage with all equal lists in the process.
pub struct SharedList<T>(Option<Arc<[T]>>);

impl<T: Repeats> From<Vec<T>> for SharedList<T> {
    fn from(items: Vec<T>) -> Self {
        Self((!items.is_empty()).then(|| T::table().share(items)))
    }
}

impl<T> std::ops::Deref for SharedList<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T: Hash> Hash for SharedList<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: serde::Serialize> serde::Serialize for SharedList<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Repeats + de::Deserialize<'de>> de::Deserialize<'de> for SharedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default().into())
    }
}

static STRINGS: Interner<str> = Interner::new();

/// A string that is likely to repeat: short ones are stored in place, long ones shared.
pub fn shared_str(text: &str) -> SmolStr {
    if text.len() <= INLINE { SmolStr::new_inline(text) } else { SmolStr::from(STRINGS.share(text)) }
}

/// `#[serde(deserialize_with = "intern::text")]`: a string that is likely to repeat; null reads as empty.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SmolStr, D::Error> {
    struct Text;
    impl<'de> Visitor<'de> for Text {
        type Value = SmolStr;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<SmolStr, E> {
            Ok(shared_str(text))
        }
        fn visit_unit<E: de::Error>(self) -> Result<SmolStr, E> {
            Ok(SmolStr::default())
        }
        fn visit_none<E: de::Error>(self) -> Result<SmolStr, E> {
            Ok(SmolStr::default())
        }
        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<SmolStr, D::Error> {
            deserializer.deserialize_str(self)
        }
    }
    deserializer.deserialize_option(Text)
}

/// The key of a map, with its text shared.
pub(crate) struct SharedKey(pub(crate) SmolStr);

impl<'de> de::Deserialize<'de> for SharedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = SharedKey;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SharedKey, E> {
                Ok(SharedKey(shared_str(text)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_allocation() {
        let table: Interner<str> = Interner::new();
        let (a, b) = (table.share("a long enough text to share"), table.share("a long enough text to share"));
        assert!(Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn unused_values_do_not_accumulate() {
        let table: Interner<str> = Interner::new();
        for i in 0..100_000 {
            table.share(i.to_string().as_str());
        }
        assert!(table.len() <= SHARDS * SWEEP_FLOOR, "{}", table.len());
    }

    #[test]
    fn values_in_use_survive_sweeps() {
        let table: Interner<str> = Interner::new();
        let held: Vec<_> = (0..20_000).map(|i| table.share(i.to_string().as_str())).collect();
        for (i, kept) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(kept, &table.share(i.to_string().as_str())));
        }
    }
}
