//! Lists of resource amounts (`cpu`, `memory`, …) and the arithmetic that requests, limits and quotas need.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use smol_str::SmolStr;

use crate::intern::SharedKey;
use crate::quantity::Quantity;

/// Amounts by resource name, sorted by name.
///
/// Equality also compares how amounts are printed; [`ResourceList::same_amounts`] does not.
#[derive(Clone, Default)]
pub struct ResourceList(Box<[(SmolStr, Quantity)]>);

impl ResourceList {
    /// The amount of `name`, if it is listed.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.0.get(at).map(|(_, amount)| *amount)
    }

    /// The entries in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Quantity)> + Clone {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.merge([(name, amount)].into_iter(), |_, amount| amount);
    }

    /// Adds the amounts of each resource.
    pub fn add(&mut self, other: &ResourceList) {
        self.merge(other.iter(), |own, other| own.unwrap_or_default() + other);
    }

    /// Takes the larger amount of each resource.
    pub fn raise_to(&mut self, other: &ResourceList) {
        self.merge(other.iter(), |own, other| own.map_or(other, |own| own.max(other)));
    }

    /// Only the resources whose name satisfies `keep`.
    pub fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| keep(name)).cloned().collect())
    }

    /// Whether both list the same resources with equal amounts, however written.
    pub fn same_amounts(&self, other: &ResourceList) -> bool {
        self.iter().eq(other.iter())
    }

    fn merge<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a str, Quantity)>,
        combine: impl Fn(Option<Quantity>, Quantity) -> Quantity,
    ) {
        let mut all = std::mem::take(&mut self.0).into_vec();
        for (name, amount) in entries {
            match all.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
                Ok(at) => all[at].1 = combine(Some(all[at].1), amount),
                Err(at) => all.insert(at, (crate::intern::shared_str(name), combine(None, amount))),
            }
        }
        self.0 = all.into();
    }
}

impl<N: AsRef<str>> FromIterator<(N, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(entries: I) -> Self {
        let mut list = Self::default();
        for (name, amount) in entries {
            list.set(name.as_ref(), amount);
        }
        list
    }
}

impl PartialEq for ResourceList {
    fn eq(&self, other: &Self) -> bool {
        let form = |list: &'_ Self| list.0.iter().map(|(_, amount)| amount.format()).collect::<Vec<_>>();
        self.same_amounts(other) && form(self) == form(other)
    }
}

impl Eq for ResourceList {}

impl Hash for ResourceList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, amount)| (name, amount.to_string()))).finish()
    }
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = ResourceList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of quantities")
            }

            fn visit_unit<E>(self) -> Result<ResourceList, E> {
                Ok(ResourceList::default())
            }

            fn visit_none<E>(self) -> Result<ResourceList, E> {
                Ok(ResourceList::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ResourceList, D::Error> {
                deserializer.deserialize_map(self)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResourceList, A::Error> {
                let mut list = Vec::new();
                while let Some((SharedKey(name), amount)) = map.next_entry::<_, Quantity>()? {
                    list.push((name, amount));
                }
                // Stable, so that the last of several entries with one name stays the last.
                list.sort_by(|a: &(SmolStr, _), b| a.0.cmp(&b.0));
                list.dedup_by(|later, kept| {
                    let same = later.0 == kept.0;
                    if same {
                        kept.1 = later.1;
                    }
                    same
                });
                Ok(ResourceList(list.into()))
            }
        }
        deserializer.deserialize_option(Entries)
    }
}

/// The requests and limits of a container or pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub limits: ResourceList,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(json: &str) -> ResourceList {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn lists_add_and_raise_by_name() {
        let mut sum = list(r#"{"memory":"1Gi","cpu":"100m"}"#);
        sum.add(&list(r#"{"cpu":"0.2","pods":"1"}"#));
        assert_eq!(serde_json::to_string(&sum).unwrap(), r#"{"cpu":"300m","memory":"1Gi","pods":"1"}"#);
        sum.raise_to(&list(r#"{"cpu":"1","memory":"1Mi","x/y":"2"}"#));
        assert_eq!(
            serde_json::to_string(&sum).unwrap(),
            r#"{"cpu":"1","memory":"1Gi","pods":"1","x/y":"2"}"#
        );
        assert_eq!(sum.get("nothing"), None);
    }

    #[test]
    fn equality_knows_form_and_amount_apart() {
        let (a, b) = (list(r#"{"memory":"1Gi"}"#), list(r#"{"memory":"1073741824"}"#));
        assert!(a != b && a.same_amounts(&b));
    }
}
