//! The server's state as rules see it, and a write of a controller.

use std::collections::HashMap;
use std::sync::Arc;

use flyball_apiserver::ApiServer;
use flyball_apiserver::store::{Entry, Follower, Happened, Key, ShelfId};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::values::{text, uid};

/// A write that the server has made for a controller.
#[derive(Debug, Clone, Default)]
pub struct Write {
    /// The service account that made it; `kcm` for the manager itself.
    pub account: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for objects of the whole cluster.
    pub namespace: String,
    /// Name of the object; empty for many at once.
    pub name: String,
    pub body: Value,
    /// The object before; null if there was none.
    pub before: Arc<Value>,
    /// The object after; null if it is gone.
    pub after: Arc<Value>,
    /// Whether another process had become the leader when it reached the server.
    pub is_by_former_leader: bool,
}

impl Write {
    /// Whether it is about this resource, whatever the subresource.
    pub fn is_on(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }

    /// Whether it creates one of this resource.
    pub fn creates(&self, group: &str, resource: &str) -> bool {
        self.verb == "create" && self.subresource.is_empty() && self.is_on(group, resource)
    }

    /// Whether it deletes one of this resource.
    pub fn deletes(&self, group: &str, resource: &str) -> bool {
        self.verb == "delete" && self.is_on(group, resource)
    }

    /// Whether it updates or patches one of this resource.
    pub fn changes(&self, group: &str, resource: &str) -> bool {
        matches!(self.verb, "update" | "patch") && self.is_on(group, resource)
    }

    /// Whether it removes a finalizer.
    pub fn drops(&self, finalizer: &str) -> bool {
        matches!(self.verb, "update" | "patch")
            && super::values::has_finalizer(&self.before, finalizer)
            && !super::values::has_finalizer(&self.after, finalizer)
    }
}

/// The server's state, now and in the past.
pub struct ServerState {
    server: ApiServer,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Parsed objects, by resource and version.
    read: HashMap<(ShelfId, Key), (u64, Arc<Value>)>,
    /// The past states of each resource's objects.
    histories: HashMap<ShelfId, History>,
    /// The account that created an object, by uid.
    makers: HashMap<String, String>,
    /// The account that made a state, by version.
    writers: HashMap<String, String>,
}

struct History {
    follower: Follower,
    versions: HashMap<String, Vec<Arc<Value>>>,
}

impl ServerState {
    pub fn of(server: ApiServer) -> Self {
        Self { server, memory: Mutex::default() }
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The time in the cluster.
    pub fn now(&self) -> Timestamp {
        self.server.inner().now()
    }

    /// All objects of a resource, or those of one namespace.
    pub fn list(&self, group: &str, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let shelf = ShelfId::new(group, resource);
        let entries = self.server.store().all(&shelf, namespace);
        let mut memory = self.memory.lock();
        entries.iter().map(|entry| memory.read(&shelf, entry)).collect()
    }

    /// One object; null if there is none.
    pub fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Arc<Value> {
        let (shelf, key) = (ShelfId::new(group, resource), Key::new(namespace, name));
        let Some(entry) = self.server.store().get(&shelf, &key) else { return Arc::default() };
        self.memory.lock().read(&shelf, &entry)
    }

    /// Every state that an object has had, the oldest first; the last one of a deleted object included.
    pub fn versions(&self, group: &str, resource: &str, uid: &str) -> Vec<Arc<Value>> {
        self.history(group, resource, |history| history.versions.get(uid).cloned().unwrap_or_default())
    }

    /// Every state of every object with this name.
    pub fn versions_named(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Vec<Arc<Value>> {
        let is_meant = |object: &Value| {
            text(&object["metadata"]["name"]) == name && text(&object["metadata"]["namespace"]) == namespace
        };
        self.history(group, resource, |history| {
            let lives =
                history.versions.values().filter(|life| life.first().is_some_and(|one| is_meant(one)));
            lives.flatten().cloned().collect()
        })
    }

    fn history<T: Default>(&self, group: &str, resource: &str, read: impl FnOnce(&History) -> T) -> T {
        let shelf = ShelfId::new(group, resource);
        let mut memory = self.memory.lock();
        if !memory.catch_up(&self.server, &shelf) {
            memory.follow_anew(&self.server, &shelf);
        }
        memory.histories.get(&shelf).map(read).unwrap_or_default()
    }

    /// Whether an account other than this one has changed the size of a set of pods.
    pub fn was_scaled_by_others(&self, account: &str, group: &str, resource: &str, set: &Value) -> bool {
        let versions = self.versions(group, resource, uid(set));
        let memory = self.memory.lock();
        versions.windows(2).any(|pair| {
            let writer = memory.writers.get(text(&pair[1]["metadata"]["resourceVersion"]));
            pair[0]["spec"]["replicas"] != pair[1]["spec"]["replicas"]
                && writer.is_none_or(|writer| writer != account)
        })
    }

    /// Whether this account has created the object.
    pub fn was_made_by(&self, account: &str, object: &Value) -> bool {
        self.memory.lock().makers.get(uid(object)).is_some_and(|maker| maker == account)
    }

    /// The active pods that an account has created for an object. Adopted pods are not among them: they may come at any time.
    pub fn live_pods(&self, account: &str, namespace: &str, owner: &str) -> Vec<Arc<Value>> {
        let mut pods = self.list("", "pods", Some(namespace));
        pods.retain(|pod| {
            super::values::manager(pod) == owner
                && super::values::is_live(pod)
                && self.was_made_by(account, pod)
        });
        pods
    }

    /// Reads all states up to now, of which a restore would leave no trace.
    pub fn remember_all(&self) {
        let mut memory = self.memory.lock();
        for shelf in self.server.store().counts().into_keys() {
            memory.catch_up(&self.server, &shelf);
        }
    }

    /// Records that the server was restored to an older version. States that are lost by that stay known: requests that were in
    /// flight may still be about them.
    pub fn restored(&self, version: u64) {
        let mut memory = self.memory.lock();
        memory.read.clear();
        memory.writers.retain(|written, _| written.parse().is_ok_and(|written: u64| written <= version));
        let shelves: Vec<ShelfId> = memory.histories.keys().cloned().collect();
        for shelf in shelves {
            memory.follow_anew(&self.server, &shelf);
        }
    }

    pub(super) fn note(&self, write: &Write) {
        let (account, after) = (&write.account, &write.after);
        let mut memory = self.memory.lock();
        if write.verb == "create" && write.subresource.is_empty() {
            memory.makers.insert(uid(after).to_owned(), account.clone());
        }
        memory.writers.insert(text(&after["metadata"]["resourceVersion"]).to_owned(), account.clone());
    }
}

impl Memory {
    fn read(&mut self, shelf: &ShelfId, entry: &Entry) -> Arc<Value> {
        let place = (shelf.clone(), entry.key.clone());
        if let Some((version, known)) = self.read.get(&place)
            && *version == entry.version
        {
            return Arc::clone(known);
        }
        let value = Arc::new(entry.value());
        self.read.insert(place, (entry.version, Arc::clone(&value)));
        value
    }

    /// Follows a resource from its current version on, keeping what is known of it.
    fn follow_anew(&mut self, server: &ApiServer, shelf: &ShelfId) {
        let known = self.histories.remove(shelf).map(|history| history.versions).unwrap_or_default();
        self.catch_up(server, shelf);
        let Some(history) = self.histories.get_mut(shelf) else { return };
        for (uid, mut states) in known {
            let newer = history.versions.remove(&uid).unwrap_or_default();
            let is_known = |state: &Arc<Value>| states.last() == Some(state);
            let newer: Vec<_> = newer.into_iter().filter(|state| !is_known(state)).collect();
            states.extend(newer);
            history.versions.insert(uid, states);
        }
    }

    /// Reads on in the history of a resource; false if the history does not reach back far enough.
    fn catch_up(&mut self, server: &ApiServer, shelf: &ShelfId) -> bool {
        let store = server.store();
        if !self.histories.contains_key(shelf) {
            let from_start = store.follow(shelf, 0).map(|follower| (follower, Vec::new()));
            let begun = from_start.or_else(|_| {
                // No lock is held between the two, but this is one step of one thread.
                store.follow(shelf, store.version()).map(|follower| (follower, store.all(shelf, None)))
            });
            let Ok((follower, present)) = begun else { return false };
            let mut history = History { follower, versions: HashMap::new() };
            for entry in present {
                history.add(self.read(shelf, &entry));
            }
            self.histories.insert(shelf.clone(), history);
        }
        let Some(history) = self.histories.get_mut(shelf) else { return false };
        loop {
            let Ok(events) = store.next(&mut history.follower, 1000) else { return false };
            for event in &events {
                if event.happened != Happened::Deleted || event.previous.is_some() {
                    history.add(Arc::new(event.entry.value()));
                }
            }
            if events.len() < 1000 {
                return true;
            }
        }
    }
}

impl History {
    fn add(&mut self, object: Arc<Value>) {
        self.versions.entry(uid(&object).to_owned()).or_default().push(object);
    }
}
