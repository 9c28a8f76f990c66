//! Values that repeat across thousands of objects (long strings, label sets, container lists, pod templates) are kept once.
//!
//! Entries without other users are removed now and then: after as many look-ups as make the cost of a pass negligible, so also when
//! nothing new is added, as after a mass deletion.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use serde::de::{self, Deserializer, Visitor};
use smol_str::SmolStr;

const SHARDS: usize = 16;
/// Shards are not swept more often than once in so many look-ups.
const SWEEP_FLOOR: usize = 256;
/// What `SmolStr` stores without a heap allocation.
const INLINE: usize = 23;

/// One table of shared values.
pub struct Interner<T: ?Sized> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

struct Shard<T: ?Sized> {
    values: HashTable<Arc<T>>,
    /// Look-ups until the next sweep.
    until_sweep: usize,
}

impl<T: ?Sized + Hash + Eq> Interner<T> {
    pub(crate) const fn new() -> Self {
        Self {
            shards: [const { Mutex::new(Shard { values: HashTable::new(), until_sweep: SWEEP_FLOOR }) };
                SHARDS],
        }
    }

    /// The shared value equal to `value`; created if there is none.
    pub(crate) fn share<V>(&self, value: V) -> Arc<T>
    where
        V: Borrow<T> + Into<Arc<T>>,
    {
        let hash = FxBuildHasher.hash_one(value.borrow());
        let mut shard = self.lock(hash);
        match shard.find(hash, value.borrow()) {
            Some(known) => known,
            None => shard.insert(hash, value.into()),
        }
    }

    /// The shared value that is found by `key`; made if there is none, while other threads can use the table.
    pub(crate) fn share_by<K, E>(&self, key: &K, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E>
    where
        T: Borrow<K> + Sized,
        K: ?Sized + Hash + Eq,
    {
        let hash = FxBuildHasher.hash_one(key);
        if let Some(known) = self.lock(hash).find(hash, key) {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let mut shard = self.lock(hash);
        Ok(match shard.find(hash, key) {
            Some(known) => known,
            None => shard.insert(hash, made),
        })
    }

    fn lock(&self, hash: u64) -> std::sync::MutexGuard<'_, Shard<T>> {
        // The table uses the lowest bits of the same hash and the highest seven: pick the shard by others.
        let shard = &self.shards[(hash >> 20) as usize % SHARDS];
        // A poisoned lock is fine: every change to the set is one call.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap().values.len()).sum()
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap().values.capacity()).sum()
    }
}

impl<T: ?Sized + Hash + Eq> Shard<T> {
    fn find<K>(&mut self, hash: u64, key: &K) -> Option<Arc<T>>
    where
        T: Borrow<K>,
        K: ?Sized + Eq,
    {
        self.until_sweep = self.until_sweep.saturating_sub(1);
        if self.until_sweep == 0 {
            self.sweep();
        }
        self.values.find(hash, |value| (**value).borrow() == key).cloned()
    }

    fn insert(&mut self, hash: u64, value: Arc<T>) -> Arc<T> {
        self.values.insert_unique(hash, value.clone(), hash_of);
        value
    }

    /// Removes the values that only the table has.
    fn sweep(&mut self) {
        self.values.retain(|shared| Arc::strong_count(shared) > 1);
        let room = (self.values.len() * 2).max(SWEEP_FLOOR);
        if self.values.capacity() > 2 * room {
            self.values.shrink_to(room, hash_of);
        }
        self.until_sweep = room;
    }
}

fn hash_of<T: ?Sized + Hash>(value: &Arc<T>) -> u64 {
    FxBuildHasher.hash_one(&**value)
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

impl<T: Repeats, const N: usize> From<[T; N]> for SharedList<T> {
    fn from(items: [T; N]) -> Self {
        Vec::from(items).into()
    }
}

impl<T: Repeats> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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
        let is_same = |(own, other): (&Arc<[T]>, &Arc<[T]>)| Arc::ptr_eq(own, other);
        self.0.as_ref().zip(other.0.as_ref()).is_some_and(is_same) || **self == **other
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
    fn unused_values_are_removed_although_nothing_is_added() {
        let table: Interner<str> = Interner::new();
        let held: Vec<_> = (0..100_000).map(|i| table.share(i.to_string().as_str())).collect();
        let full = table.capacity();
        drop(held);
        let kept: Vec<_> = (0..SHARDS * 16).map(|i| table.share(i.to_string().as_str())).collect();
        for look_up in 0..1_000_000 {
            table.share(kept[look_up % kept.len()].as_ref());
        }
        assert!(table.len() <= SHARDS * SWEEP_FLOOR, "{}", table.len());
        assert!(table.capacity() < full / 4, "{} of {full}", table.capacity());
    }

    #[test]
    fn a_value_is_made_only_if_its_key_is_not_known() {
        let table: Interner<String> = Interner::new();
        let make = |text: &str| table.share_by(text, || Ok::<_, ()>(text.to_owned())).unwrap();
        let first = make("a");
        let again = table.share_by("a", || Err(())).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(table.share_by("b", || Err("not possible")), Err("not possible"));
        assert_eq!(*make("b"), "b", "a failure is not remembered");
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
