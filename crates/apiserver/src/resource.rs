//! The resources that are served: built-in ones and custom ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use smol_str::{SmolStr, format_smolstr};

use crate::crd::Definition;
use crate::error::Named;
use crate::kinds::schema::{self, Type};
use crate::registry::{Builtin, Strategy, Subresource, Verbs};
use crate::store::{Facets, ShelfId};

/// One version of one resource as it is served.
pub struct Resource {
    pub group: SmolStr,
    pub version: SmolStr,
    pub plural: SmolStr,
    pub singular: SmolStr,
    pub kind: SmolStr,
    pub list_kind: SmolStr,
    pub short_names: Vec<SmolStr>,
    /// Groups such as `all`.
    pub categories: Vec<SmolStr>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    pub verbs: Verbs,
    pub subresources: Vec<Subresource>,
    pub generation: bool,
    pub shelf: ShelfId,
    /// The apiVersion in which objects are kept.
    pub stored_version: SmolStr,
    pub strategy: Arc<dyn Strategy>,
    /// The built-in type, if it is one.
    pub shape: Option<&'static Type>,
    /// The definition behind it, if it is a custom one.
    pub(crate) custom: Option<Arc<Definition>>,
}

impl Resource {
    fn builtin(builtin: &Builtin) -> Self {
        let info = &builtin.info;
        let api_version = join(info.group, info.version);
        let (stored_group, stored_version) = info.stored_as.unwrap_or((info.group, info.version));
        let singular = info.singular.map_or_else(|| info.kind.to_lowercase(), str::to_owned);
        Self {
            group: info.group.into(),
            version: info.version.into(),
            plural: info.plural.into(),
            singular: singular.into(),
            kind: info.kind.into(),
            list_kind: format_smolstr!("{}List", info.kind),
            short_names: info.short_names.iter().map(|s| SmolStr::new_static(s)).collect(),
            categories: info.categories.iter().map(|s| SmolStr::new_static(s)).collect(),
            namespaced: info.namespaced,
            verbs: info.verbs,
            subresources: info.subresources.to_vec(),
            generation: info.generation,
            shelf: ShelfId::new(stored_group, info.plural),
            stored_version: join(stored_group, stored_version),
            strategy: Arc::clone(&builtin.strategy),
            shape: schema::builtin().kind(&api_version, info.kind),
            custom: None,
        }
    }

    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> SmolStr {
        join(&self.group, &self.version)
    }

    /// Whether objects are kept in another version than they are served in.
    pub fn converts(&self) -> bool {
        self.stored_version != self.api_version()
    }

    /// How messages name an object of it: `deployments.apps "x"`.
    pub fn named<'a>(&'a self, name: &'a str) -> Named<'a> {
        Named { group: &self.group, what: &self.plural, name }
    }

    /// How validation messages name an object of it: `Deployment.apps "x"`.
    pub fn kind_named<'a>(&'a self, name: &'a str) -> Named<'a> {
        Named { group: &self.group, what: &self.kind, name }
    }

    /// Whether it has a subresource.
    pub fn has(&self, sub: Subresource) -> bool {
        self.subresources.contains(&sub)
    }

    /// Whether it is this built-in or custom resource.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group
    }

    pub fn verb_names(&self) -> &'static [&'static str] {
        match self.verbs {
            Verbs::All => {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
            Verbs::NoDeleteCollection => &["create", "delete", "get", "list", "patch", "update", "watch"],
            Verbs::Read => &["get", "list"],
            Verbs::CreateOnly => &["create"],
        }
    }

    /// The parts of an object (in storage form) that selectors match.
    pub fn facets(&self, object: &Value) -> Facets {
        let labels = object["metadata"]["labels"].as_object();
        let labels = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| {
                (SmolStr::from(key.as_str()), SmolStr::from(value.as_str().unwrap_or_default()))
            })
            .collect();
        let fields = self.strategy.field_values(object).into_iter().map(SmolStr::from).collect();
        Facets { labels, fields }
    }
}

/// `group/version`, or the version alone for core.
pub(crate) fn join(group: &str, version: &str) -> SmolStr {
    if group.is_empty() { version.into() } else { format_smolstr!("{group}/{version}") }
}

type Address = (SmolStr, SmolStr, SmolStr);

/// All resources, in the order of discovery; replaced as a whole when definitions change.
#[derive(Default)]
pub struct Catalog {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    order: Vec<Arc<Resource>>,
    by_address: BTreeMap<Address, Arc<Resource>>,
    generation: u64,
}

impl Catalog {
    pub fn new(builtins: &[Builtin]) -> Self {
        let catalog = Self::default();
        catalog.replace(|_| true, builtins.iter().map(Resource::builtin).collect());
        catalog
    }

    /// A resource by group, version and plural name.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.state.read().by_address.get(&(group.into(), version.into(), plural.into())).cloned()
    }

    /// The resource whose objects have this kind.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.state.read().order.iter().find(|r| r.kind == kind && r.api_version() == api_version).cloned()
    }

    /// The resource that defines the objects of a shelf.
    pub fn by_shelf(&self, shelf: &ShelfId) -> Option<Arc<Resource>> {
        self.state.read().order.iter().find(|r| r.shelf == *shelf && !r.converts()).cloned()
    }

    /// All resources, in the order of discovery.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        self.state.read().order.clone()
    }

    /// A number that grows with each change.
    pub fn generation(&self) -> u64 {
        self.state.read().generation
    }

    /// Removes the resources for which `outdated` is true, and adds `fresh`.
    pub fn replace(&self, outdated: impl Fn(&Resource) -> bool, fresh: Vec<Resource>) {
        let mut state = self.state.write();
        state.generation += 1;
        state.order.retain(|resource| !outdated(resource));
        state.order.extend(fresh.into_iter().map(Arc::new));
        let address = |r: &Arc<Resource>| (r.group.clone(), r.version.clone(), r.plural.clone());
        state.by_address = state.order.iter().map(|r| (address(r), Arc::clone(r))).collect();
    }
}
