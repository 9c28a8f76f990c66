//! Small serde pieces shared by all kinds.

use serde::{Deserialize, Deserializer};

/// `#[serde(deserialize_with = "null_default")]`: Go writes nil slices and maps as null; they read as empty.
pub fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `#[serde(deserialize_with = "list")]`: the same for lists of kinds of which many objects are cached: the list has
/// no spare capacity.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut list: Vec<T> = null_default(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// `#[serde(with = "few")]`: a list that nearly always has one element; null reads as empty.
pub(crate) mod few {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use smallvec::SmallVec;

    pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<SmallVec<[T; 1]>, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de>,
    {
        let mut list = SmallVec::from_vec(super::list(deserializer)?);
        // Puts a single element in place.
        list.shrink_to_fit();
        Ok(list)
    }

    pub(crate) fn serialize<S, T>(list: &SmallVec<[T; 1]>, serializer: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Serialize,
    {
        list.as_slice().serialize(serializer)
    }
}

/// Predicates for `skip_serializing_if`, mirroring Go's `omitempty`.
pub(crate) mod skip {
    /// Whether it is the default of its type.
    pub(crate) fn default<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }

    /// Whether a number is zero.
    pub(crate) fn zero<T: Default + PartialEq>(value: &T) -> bool {
        default(value)
    }

    /// Whether a flag is off.
    pub(crate) fn off(value: &bool) -> bool {
        !*value
    }
}
