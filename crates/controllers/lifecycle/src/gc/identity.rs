//! What an owner reference points to: the identity of one object, and whether a reference matches it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use flyball_api::{Key, ObjectMeta, OwnerReference, Uid};
use flyball_runtime::WorkKey;
use smol_str::SmolStr;

/// One object in the cluster. The derived order, field by field, is the one in which the possible identities of an
/// unknown owner are tried.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub kind: Kind,
    /// Empty for cluster-scoped objects, and for owners of unknown scope whose dependent is cluster-scoped.
    pub namespace: SmolStr,
    pub name: SmolStr,
    pub uid: Uid,
}

/// Whether a reference may mean `kind` by `name`: the API server accepts any, and upstream resolves it in lower case, too.
pub fn is_name_of(name: &str, kind: &str) -> bool {
    name == kind || name == kind.to_lowercase()
}

/// The kind of the objects that an informer shows, or that references name. All objects of an informer share one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Arc<KindNames>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindNames {
    pub kind: SmolStr,
    pub api_version: SmolStr,
}

impl Kind {
    pub fn new(api_version: SmolStr, kind: SmolStr) -> Self {
        Self(Arc::new(KindNames { kind, api_version }))
    }
}

impl Deref for Kind {
    type Target = KindNames;

    fn deref(&self) -> &KindNames {
        &self.0
    }
}

impl Identity {
    /// The identity of an object that was seen.
    pub fn of(kind: &Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind: kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        }
    }

    /// The identity of the owner according to a reference of an object in `namespace`.
    pub fn claimed(reference: &OwnerReference, namespace: &SmolStr) -> Self {
        Self {
            kind: Kind::new(reference.api_version.clone(), reference.kind.clone()),
            namespace: namespace.clone(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }

    /// Whether a reference names exactly this object, whatever its namespace.
    pub fn is_meant_by(&self, reference: &OwnerReference) -> bool {
        self.uid == reference.uid
            && self.name == reference.name
            && self.kind.kind == reference.kind
            && self.kind.api_version == reference.api_version
    }

    /// The group of its kind, without the version.
    pub fn group(&self) -> &str {
        self.kind.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    pub fn key(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }

    /// What is put into a queue for it.
    pub fn item(&self) -> Item {
        Item { uid: self.uid.clone(), kind: self.kind.kind.clone(), key: self.key() }
    }
}

/// As upstream prints it in events.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, uid } = self;
        let KindNames { kind, api_version } = &**kind;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// An object in a queue: its uid says which one, the rest is for the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    pub uid: Uid,
    pub kind: SmolStr,
    pub key: Key,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl WorkKey for Item {
    fn object(&self) -> &Key {
        &self.key
    }
}

/// How the references of a dependent to the uid of an owner match its identity. One object may have several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fit {
    /// One of them names exactly this owner.
    pub matches: bool,
    /// One of them names something else.
    pub differs: bool,
}

/// Compares the references of an object in `namespace` with the known or assumed identity of their owner.
pub fn fit<'a>(
    owner: &Identity,
    references: impl IntoIterator<Item = &'a OwnerReference>,
    namespace: &str,
) -> Fit {
    if !owner.namespace.is_empty() && owner.namespace != namespace {
        // A reference cannot point to an owner in another namespace.
        return Fit { matches: false, differs: true };
    }
    let to_it = references.into_iter().filter(|reference| reference.uid == owner.uid);
    to_it.fold(Fit::default(), |fit, reference| match owner.is_meant_by(reference) {
        true => Fit { matches: true, ..fit },
        false => Fit { differs: true, ..fit },
    })
}

/// Another identity in the references of dependents, for an owner that does not exist as `absent`: the next in order, or
/// the first, so that all are tried in turn.
///
/// Upstream: graph_builder.go, getAlternateOwnerIdentity.
pub fn alternative<'a>(
    absent: &Identity,
    dependents: impl Iterator<Item = (&'a SmolStr, impl IntoIterator<Item = &'a OwnerReference>)>,
) -> Option<Identity> {
    let is_cluster_scoped = absent.namespace.is_empty();
    let mut claims = BTreeSet::new();
    for (namespace, references) in dependents {
        for reference in references.into_iter().filter(|reference| reference.uid == absent.uid) {
            let mut claim = Identity::claimed(reference, namespace);
            if is_cluster_scoped && claim.kind == absent.kind {
                claim.namespace = SmolStr::default();
            }
            if claim != *absent {
                claims.insert(claim);
            }
        }
    }
    let next = claims.range(absent..).next().cloned();
    next.or_else(|| claims.pop_first())
}
