//! A small server for the garbage collector: objects of three kinds, watches that lag, requests that fail, and a user who
//! changes objects between any two requests. Every deletion is checked when it takes effect.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{Key, ObjectMeta, OwnerReference, ResourceType, ResourceVersion, Uid};
use flyball_cache::{MetaChange, Origin};
use flyball_client::{ApiStatus, DeleteOptions, Error, Patch, Propagation, StatusDetails};
use flyball_common::discovery::Mark;
use flyball_runtime::events::ObjectRef;
use flyball_runtime::plan::{Failure, Operation};
use flyball_runtime::{Event, Outcome, Plan, Retry};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::gc::identity::{Identity, Item, Kind};
use crate::gc::invariants::may_be_collected;
use crate::gc::server::Server;
use crate::gc::{FOREGROUND, ORPHAN};

/// Namespaced, namespaced without strategic merge patches, cluster-scoped.
pub(super) const KINDS: [&str; 3] = ["Thing", "Custom", "Global"];
const NAMESPACES: [&str; 2] = ["m", "n"];

pub(super) fn resource(kind: &str) -> ResourceType {
    let plural = format!("{}s", kind.to_lowercase());
    let namespaced = kind != "Global";
    ResourceType {
        group: "".into(),
        version: "v1".into(),
        plural: plural.into(),
        kind: kind.into(),
        namespaced,
    }
}

pub(super) type Objects = BTreeMap<(usize, Key), ObjectMeta>;

/// The server and what the caches have seen of it.
pub(super) struct World {
    state: Mutex<State>,
}

pub(super) struct State {
    rng: StdRng,
    version: u64,
    era: u64,
    born: u64,
    objects: Objects,
    /// What happened to each kind, in order, and has not been shown yet.
    unseen: [Vec<(Option<ObjectMeta>, Option<ObjectMeta>)>; 3],
    cached: Objects,
    /// Owners that have waited for their dependents to go. Who changes the kind of a deletion that is under way
    /// cannot save those whose end is decided: no request could.
    given_up: BTreeSet<Uid>,
    /// Owners that the collector has let go after it freed their dependents.
    outlived: BTreeSet<Uid>,
    /// Kinds that the server does not serve any more, and whether discovery has said so.
    pub(super) unserved: BTreeMap<&'static str, bool>,
    /// Whether an object is changed just before each deletion of it arrives.
    pub(super) hot: bool,
    /// Reads that were asked for.
    pub(super) reads: usize,
    /// Whether anybody meddles and anything fails.
    pub(super) faults: bool,
    /// What must never happen, and did.
    pub(super) broken: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State {
                rng: StdRng::seed_from_u64(seed),
                version: 0,
                era: 0,
                born: 0,
                objects: Objects::new(),
                unseen: Default::default(),
                cached: Objects::new(),
                given_up: BTreeSet::new(),
                outlived: BTreeSet::new(),
                unserved: BTreeMap::new(),
                hot: false,
                reads: 0,
                faults: true,
                broken: vec![],
            }),
        }
    }

    pub(super) fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.state.lock())
    }
}

impl State {
    fn chance(&mut self, one_in: u32) -> bool {
        self.faults && self.rng.random_ratio(1, one_in)
    }

    fn pick<T>(&mut self, all: &[T]) -> Option<usize> {
        (!all.is_empty()).then(|| self.rng.random_range(0..all.len()))
    }

    /// Stores an object in its new state, or removes it, and lets the caches hear of it some time.
    fn put(&mut self, at: (usize, Key), new: Option<ObjectMeta>) {
        self.version += 1;
        let new = new.map(|meta| ObjectMeta { resource_version: ResourceVersion(self.version), ..meta });
        // What is being deleted and nothing holds is gone.
        let new = new.filter(|meta| !(meta.is_deleting() && meta.finalizers.is_empty()));
        let old = match &new {
            Some(meta) => self.objects.insert(at.clone(), meta.clone()),
            None => self.objects.remove(&at),
        };
        self.unseen[at.0].push((old, new));
    }

    /// Creates an object with these owners, and gives back what refers to it.
    pub(super) fn add(&mut self, kind: &str, name: &str, owners: Vec<OwnerReference>) -> OwnerReference {
        let at = KINDS.iter().position(|other| *other == kind).unwrap_or_default();
        let key = Key::new("n", name);
        let meta = ObjectMeta {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: Uid::from(format!("{kind}-{name}").as_str()),
            owner_references: owners.into(),
            ..ObjectMeta::default()
        };
        self.put((at, key), Some(meta));
        self.reference_to(kind, name)
    }

    /// A reference to an object that [`Self::add`] creates.
    pub(super) fn reference_to(&self, kind: &str, name: &str) -> OwnerReference {
        OwnerReference {
            api_version: "v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: Uid::from(format!("{kind}-{name}").as_str()),
            ..OwnerReference::default()
        }
    }

    pub(super) fn remove(&mut self, kind: &str, name: &str) {
        let at = KINDS.iter().position(|other| *other == kind).unwrap_or_default();
        self.put((at, Key::new("n", name)), None);
    }

    pub(super) fn set_finalizers(&mut self, kind: &str, name: &str, finalizers: &[&str]) {
        let at = KINDS.iter().position(|other| *other == kind).unwrap_or_default();
        let at = (at, Key::new("n", name));
        let Some(meta) = self.objects.get(&at).cloned() else { return };
        let finalizers = finalizers.iter().map(|name| (*name).into()).collect();
        self.put(at, Some(ObjectMeta { finalizers, ..meta }));
    }

    pub(super) fn remove_all(&mut self, kind: &str) {
        self.all_of(kind).into_iter().for_each(|at| self.put(at, None));
    }

    pub(super) fn delete_all_in_foreground(&mut self, kind: &str) {
        self.all_of(kind).into_iter().for_each(|at| self.delete(&at, Propagation::Foreground));
    }

    fn all_of(&self, kind: &str) -> Vec<(usize, Key)> {
        self.objects.keys().filter(|(n, _)| KINDS[*n] == kind).cloned().collect()
    }

    /// The server goes back to an earlier state, and all caches are listed anew.
    pub(super) fn restore(&mut self, earlier: Objects, deliver: &mut dyn FnMut(&Kind, &MetaChange<'_>)) {
        self.era += 1;
        self.objects = earlier;
        for (n, kind) in KINDS.iter().enumerate() {
            let kind = Kind::new("v1".into(), (*kind).into());
            self.relist(n, &kind, deliver);
        }
    }

    pub(super) fn all(&self) -> Objects {
        self.objects.clone()
    }

    pub(super) fn items(&self, kind: &str) -> Vec<Item> {
        let all = self.objects().filter(|(other, _)| *other == kind);
        all.map(|(kind, meta)| Item { uid: meta.uid.clone(), kind: kind.into(), key: meta.key() }).collect()
    }

    pub(super) fn meddle(&mut self) {
        let all: Vec<(usize, Key)> = self.objects.keys().cloned().collect();
        match self.rng.random_range(0..12) {
            0..=5 if all.len() < 24 => self.create(&all),
            6 | 7 => {
                if let Some(n) = self.pick(&all) {
                    let how = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
                    let how = how[self.rng.random_range(0..how.len())];
                    self.delete(&all[n], how);
                }
            }
            8 => self.edit(&all, |state, meta| {
                let mut owners = meta.owner_references.to_vec();
                owners.extend(state.reference());
                meta.owner_references = owners.into();
            }),
            9 => self.edit(&all, |_, meta| {
                meta.owner_references = meta.owner_references.iter().skip(1).cloned().collect();
            }),
            10 => self.edit(&all, |_, meta| {
                meta.finalizers = meta.finalizers.iter().filter(|f| *f != "hold").cloned().collect()
            }),
            // Changes that do not concern ownership, but do change the version.
            _ => self.edit(&all, |_, meta| meta.generation += 1),
        }
    }

    fn edit(&mut self, all: &[(usize, Key)], change: impl FnOnce(&mut Self, &mut ObjectMeta)) {
        let Some(n) = self.pick(all) else { return };
        let Some(mut meta) = self.objects.get(&all[n]).cloned() else { return };
        change(self, &mut meta);
        self.put(all[n].clone(), Some(meta));
    }

    fn create(&mut self, all: &[(usize, Key)]) {
        let kind = self.rng.random_range(0..KINDS.len());
        let namespace = if KINDS[kind] == "Global" { "" } else { NAMESPACES[self.rng.random_range(0..2)] };
        // Few names, so that they are used again by others.
        let key = Key::new(namespace, format!("o{}", self.rng.random_range(0..8)));
        if all.contains(&(kind, key.clone())) {
            return;
        }
        self.born += 1;
        let owners: Vec<OwnerReference> =
            (0..self.rng.random_range(0..3)).filter_map(|_| self.reference()).collect();
        let finalizers = if self.rng.random_ratio(1, 6) { vec!["hold".into()] } else { vec![] };
        let meta = ObjectMeta {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: Uid::from(format!("u{}", self.born).as_str()),
            owner_references: owners.into(),
            finalizers: finalizers.into(),
            ..ObjectMeta::default()
        };
        self.put((kind, key), Some(meta));
    }

    /// A reference to some object, mostly a valid one.
    fn reference(&mut self) -> Option<OwnerReference> {
        let all: Vec<(usize, Key)> = self.objects.keys().cloned().collect();
        let (kind, key) = all[self.pick(&all)?].clone();
        let uid = self.objects.get(&(kind, key.clone()))?.uid.clone();
        let mut reference = OwnerReference {
            api_version: "v1".into(),
            kind: KINDS[kind].into(),
            name: key.name,
            uid,
            controller: None,
            block_owner_deletion: Some(self.rng.random_ratio(1, 2)),
        };
        match self.rng.random_range(0..20) {
            0 => reference.name = "nobody".into(),
            1 => reference.uid = Uid::from(format!("v{}", self.rng.random_range(0..3)).as_str()),
            2 => reference.kind = KINDS[self.rng.random_range(0..3)].into(),
            _ => {}
        }
        Some(reference)
    }

    fn delete(&mut self, at: &(usize, Key), how: Propagation) {
        let Some(mut meta) = self.objects.get(at).cloned() else { return };
        let mut finalizers: Vec<_> =
            meta.finalizers.iter().filter(|f| *f != FOREGROUND && *f != ORPHAN).cloned().collect();
        match how {
            Propagation::Foreground => {
                finalizers.push(FOREGROUND.into());
                self.given_up.insert(meta.uid.clone());
            }
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
            Propagation::Background => {}
        }
        meta.finalizers = finalizers.into();
        meta.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
        self.put(at.clone(), Some(meta));
    }

    /// Shows the caches the next thing that happened to a kind, or (after a lost watch) all at once.
    pub(super) fn show(&mut self, kind: usize, deliver: &mut dyn FnMut(&Kind, &MetaChange<'_>)) -> bool {
        let of = Kind::new("v1".into(), KINDS[kind].into());
        if self.unseen[kind].is_empty() {
            return false;
        }
        if self.chance(10) {
            self.relist(kind, &of, deliver);
            return true;
        }
        let (old, new) = self.unseen[kind].remove(0);
        if let Some(meta) = new.as_ref().or(old.as_ref()) {
            match &new {
                Some(new) => self.cached.insert((kind, meta.key()), new.clone()),
                None => self.cached.remove(&(kind, meta.key())),
            };
        }
        deliver(&of, &MetaChange { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch });
        true
    }

    fn relist(&mut self, kind: usize, of: &Kind, deliver: &mut dyn FnMut(&Kind, &MetaChange<'_>)) {
        self.unseen[kind].clear();
        let of_kind = |objects: &Objects| -> Objects {
            objects
                .iter()
                .filter(|((k, _), _)| *k == kind)
                .map(|(at, meta)| (at.clone(), meta.clone()))
                .collect()
        };
        let (before, after) = (of_kind(&self.cached), of_kind(&self.objects));
        self.cached.retain(|(k, _), _| *k != kind);
        self.cached.extend(after.clone());
        for (at, old) in &before {
            if after.get(at).is_none_or(|new| new.uid != old.uid) {
                deliver(of, &MetaChange { old: Some(old), new: None, origin: Origin::Relist });
            }
        }
        for (at, new) in &after {
            let old = before.get(at).filter(|old| old.uid == new.uid);
            deliver(of, &MetaChange { old, new: Some(new), origin: Origin::Relist });
        }
    }

    /// The owner that a reference of an object in `namespace` points to, as it is now.
    pub(super) fn owner(&self, namespace: &str, reference: &OwnerReference) -> Option<ObjectMeta> {
        let kind = KINDS.iter().position(|kind| *kind == reference.kind)?;
        let key = if KINDS[kind] == "Global" {
            Key::cluster(reference.name.clone())
        } else {
            Key::new(namespace, reference.name.clone())
        };
        self.objects.get(&(kind, key)).filter(|owner| owner.uid == reference.uid).cloned()
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = (&str, &ObjectMeta)> {
        self.objects.iter().map(|((kind, _), meta)| (KINDS[*kind], meta))
    }

    fn at(resource: &ResourceType, key: &Key) -> (usize, Key) {
        let kind = KINDS.iter().position(|kind| *kind == resource.kind).unwrap_or_default();
        (kind, if resource.namespaced { key.clone() } else { Key::cluster(key.name.clone()) })
    }

    /// Time passes on the way to the server; sometimes the request does not arrive.
    fn travel(&mut self) -> Result<(), Error> {
        if !self.faults {
            return Ok(());
        }
        for _ in 0..self.rng.random_range(0..3) {
            self.meddle();
        }
        match self.rng.random_range(0..20) {
            0 => Err(failure(500, "InternalError", "")),
            // The resource is not served now; from that nothing follows.
            1 => Err(failure(404, "NotFound", "")),
            _ => Ok(()),
        }
    }

    /// On the way back the answer may get lost.
    fn answer(&mut self) -> Result<(), Error> {
        if self.chance(20) { Err(failure(504, "Timeout", "")) } else { Ok(()) }
    }
}

fn failure(code: u16, reason: &str, name: &str) -> Error {
    let details = StatusDetails { name: name.into(), ..StatusDetails::default() };
    Error::Status(Box::new(ApiStatus { code, reason: reason.into(), details, ..ApiStatus::default() }))
}

impl Server for World {
    fn resource(&self, _: &str, kind: &str) -> Option<ResourceType> {
        let mut state = self.state.lock();
        // Sometimes discovery does not show it yet.
        let is_known = !state.unserved.get(kind).copied().unwrap_or_default() && !state.chance(40);
        (KINDS.contains(&kind) && is_known).then(|| resource(kind))
    }

    fn mark(&self) -> Mark {
        Mark::default()
    }

    fn has_followed(&self, _: Mark) -> bool {
        !self.state.lock().chance(10)
    }

    fn era(&self) -> u64 {
        self.state.lock().era
    }

    fn cached(&self, resource: &ResourceType, object: &Identity) -> Option<ObjectMeta> {
        let state = self.state.lock();
        state.cached.get(&State::at(resource, &object.key())).filter(|meta| meta.uid == object.uid).cloned()
    }

    async fn read(&self, resource: &ResourceType, object: &Identity) -> Result<ObjectMeta, Error> {
        // An answer takes its time, in which other workers go on.
        tokio::task::yield_now().await;
        let mut state = self.state.lock();
        state.reads += 1;
        state.travel()?;
        if state.unserved.contains_key(resource.kind.as_str()) {
            return Err(failure(404, "NotFound", ""));
        }
        let found = state.objects.get(&State::at(resource, &object.key())).cloned();
        state.answer()?;
        found.ok_or_else(|| failure(404, "NotFound", &object.name))
    }

    async fn perform(&self, _: &Key, plan: Plan) -> Outcome {
        let mut outcome = Outcome::default();
        for write in plan.writes() {
            let written = match &write.operation {
                Operation::Delete(options) => self.delete(&write.resource, &write.key, options),
                Operation::Patch(patch) => self.patch(&write.resource, &write.key, patch),
                _ => panic!("unexpected: {write}"),
            };
            let Err(error) = written else { continue };
            outcome.failures.push(Failure {
                tag: Some(()),
                verb: Some(write.verb()),
                doing: write.to_string(),
                message: error.to_string(),
                error: Some(error),
                retry: Retry::Backoff,
                is_expected: false,
            });
            break;
        }
        outcome
    }

    fn record(&self, _: &ObjectRef, _: Event) {}

    fn judge(&self, check: impl FnOnce() -> Result<(), String>) {
        if let Err(broken) = check() {
            self.state.lock().broken.push(broken);
        }
    }
}

impl World {
    fn delete(&self, resource: &ResourceType, key: &Key, options: &DeleteOptions) -> Result<(), Error> {
        let mut state = self.state.lock();
        let at = State::at(resource, key);
        let sent = state.objects.get(&at).cloned();
        state.travel()?;
        if state.hot
            && let Some(meta) = state.objects.get(&at).cloned()
        {
            state.put(at.clone(), Some(ObjectMeta { generation: meta.generation + 1, ..meta }));
        }
        let Some(mut meta) = state.objects.get(&at).cloned() else {
            return Err(failure(404, "NotFound", &key.name));
        };
        let is_as_seen = options.uid.as_ref().is_none_or(|uid| *uid == meta.uid)
            && options.resource_version.is_none_or(|version| version == meta.resource_version);
        if !is_as_seen {
            return Err(failure(409, "Conflict", &key.name));
        }
        if options.resource_version.is_none() {
            // Who insists on no version cannot heed an owner that was added on the way.
            meta = sent.filter(|sent| sent.uid == meta.uid).unwrap_or(meta);
        }
        let owner = |reference: &OwnerReference| {
            let owner = state.owner(&meta.namespace, reference);
            owner.filter(|owner| !state.given_up.contains(&owner.uid))
        };
        let was_promised = |reference: &&OwnerReference| {
            state.outlived.contains(&reference.uid) && !state.given_up.contains(&reference.uid)
        };
        let promised = meta.owner_references.iter().find(was_promised);
        let promised = promised.map(|reference| format!("{} was to outlive {}", meta.key(), reference.name));
        if let Err(broken) = may_be_collected(&meta, owner) {
            state.broken.push(broken);
        }
        state.broken.extend(promised);
        state.delete(&at, options.propagation.unwrap_or(Propagation::Background));
        state.answer()
    }

    fn patch(&self, resource: &ResourceType, key: &Key, patch: &Patch) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.travel()?;
        let at = State::at(resource, key);
        let Some(mut meta) = state.objects.get(&at).cloned() else {
            return Err(failure(404, "NotFound", &key.name));
        };
        let (is_strategic, body) = match patch {
            Patch::Strategic(_) if resource.kind == "Custom" => {
                return Err(failure(415, "UnsupportedMediaType", ""));
            }
            Patch::Strategic(body) => (true, body),
            Patch::Merge(body) | Patch::Json(body) | Patch::Apply { object: body, .. } => (false, body),
        };
        let patch = &body["metadata"];
        let text = |field: &str| patch.get(field).and_then(Value::as_str);
        if text("uid").is_some_and(|uid| Uid::from(uid) != meta.uid)
            || text("resourceVersion").is_some_and(|version| version != meta.resource_version.to_string())
        {
            return Err(failure(409, "Conflict", &key.name));
        }
        let entries = |field: &str| patch[field].as_array().cloned().unwrap_or_default();
        if patch.get("finalizers").is_some() {
            let keeps = entries("finalizers").iter().any(|finalizer| finalizer == ORPHAN);
            if meta.is_deleting() && meta.has_finalizer(ORPHAN) && !keeps {
                state.outlived.insert(meta.uid.clone());
            }
            meta.finalizers =
                entries("finalizers").iter().filter_map(Value::as_str).map(Into::into).collect();
        }
        if patch.get("ownerReferences").is_some() {
            let given = entries("ownerReferences");
            let mut owners = if is_strategic { meta.owner_references.to_vec() } else { vec![] };
            for entry in given {
                let uid = Uid::from(entry["uid"].as_str().unwrap_or_default());
                owners.retain(|owner| !is_strategic || owner.uid != uid);
                if entry.get("$patch").is_none() {
                    owners.extend(serde_json::from_value::<OwnerReference>(entry).ok());
                }
            }
            meta.owner_references = owners.into();
        }
        state.put(at, Some(meta));
        state.answer()
    }
}
