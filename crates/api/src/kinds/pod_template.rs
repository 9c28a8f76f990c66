//! Pod templates: the raw JSON, which is copied into pods, and the few fields that controllers read.

mod hash;
mod revision;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::intern::{self, Interner, SharedList};
use crate::pod::RestartPolicy;
use crate::taint::Toleration;
use crate::{Labels, RawJson, WithRaw, labels};

/// A `spec.template`: the raw JSON with the parsed fields. Templates with the same JSON are one, which is parsed and hashed once.
#[derive(Clone, Default)]
pub struct PodTemplate(Arc<Kept>);

/// Found by its JSON.
#[derive(Default)]
struct Kept(WithRaw<TemplateFields>);

static TEMPLATES: Interner<Kept> = Interner::new();

impl Borrow<str> for Kept {
    fn borrow(&self) -> &str {
        self.0.raw().as_str()
    }
}

impl Hash for Kept {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<str>::borrow(self).hash(state);
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        Borrow::<str>::borrow(self) == Borrow::<str>::borrow(other)
    }
}

impl Eq for Kept {}

/// The fields that controllers read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateFields {
    pub metadata: TemplateMeta,
    pub spec: TemplateSpec,
    /// See [`PodTemplate::revision_digest`]; computed when it is first needed.
    #[serde(skip)]
    revision: OnceLock<u128>,
}

/// The label that a Deployment adds to the template of each of its ReplicaSets.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

impl PodTemplate {
    /// Parses `raw` and keeps it.
    pub fn new(raw: RawJson) -> Result<Self, serde_json::Error> {
        let kept = TEMPLATES.share_by(raw.as_str(), || WithRaw::new(raw.clone()).map(Kept))?;
        Ok(Self(kept))
    }

    pub fn raw(&self) -> &RawJson {
        self.0.0.raw()
    }

    /// Whether both are one in memory.
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.0, &other.0)
    }

    #[cfg(test)]
    pub(crate) fn known_revision(&self) -> Option<u128> {
        self.revision.get().copied()
    }

    /// Whether both templates are equal, except for the label [`POD_TEMPLATE_HASH`]. Quantities are compared by value: `1Gi`
    /// equals `1024Mi`.
    pub fn makes_same_pods(&self, other: &Self) -> bool {
        self.revision_digest() == other.revision_digest()
    }

    /// A digest of the template without the label [`POD_TEMPLATE_HASH`].
    pub fn revision_digest(&self) -> u128 {
        *self.revision.get_or_init(|| revision::digest(self.raw()))
    }

    /// Upstream's hash of the template, for names and labels. `collisions` (`status.collisionCount`) changes it after a collision
    /// of names.
    pub fn hash(&self, collisions: Option<i32>) -> String {
        hash::compute_hash(&self.raw().to_value(), collisions)
    }
}

impl Deref for PodTemplate {
    type Target = TemplateFields;

    fn deref(&self) -> &TemplateFields {
        &self.0.0
    }
}

impl PartialEq for PodTemplate {
    fn eq(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other) || self.raw() == other.raw()
    }
}

impl Eq for PodTemplate {}

impl fmt::Debug for PodTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}

impl Serialize for PodTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PodTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        if json.get() == "null" {
            return Ok(Self::default());
        }
        let parse = || RawJson::parse(json.get()).and_then(WithRaw::new).map(Kept);
        TEMPLATES.share_by(json.get(), parse).map(Self).map_err(D::Error::custom)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateMeta {
    #[serde(deserialize_with = "labels::interned")]
    pub labels: Labels,
    pub annotations: Labels,
}

/// The fields of the pod spec that controllers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TemplateSpec {
    #[serde(deserialize_with = "intern::text")]
    pub node_name: SmolStr,
    pub node_selector: Labels,
    pub affinity: Option<RawJson>,
    pub tolerations: SharedList<Toleration>,
    pub restart_policy: RestartPolicy,
    pub host_network: bool,
}
