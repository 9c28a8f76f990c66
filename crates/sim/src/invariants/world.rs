//! The server's true state as rules look at it, and a write of a controller.

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

    /// Whether it changes one of this resource.
    pub fn changes(&self, group: &str, resource: &str) -> bool {
        matches!(self.verb, "update" | "patch") && self.is_on(group, resource)
    }

    /// Whether it takes a finalizer away.
    pub fn drops(&self, finalizer: &str) -> bool {
        matches!(self.verb, "update" | "patch")
            && super::values::has_finalizer(&self.before, finalizer)
            && !super::values::has_finalizer(&self.after, finalizer)
    }
}

/// The server's state now and before.
pub struct World {
    server: ApiServer,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Objects that were read already, by where they live and their version.
    read: HashMap<(ShelfId, Key), (u64, Arc<Value>)>,
    /// What became of the objects of a resource.
    told: HashMap<ShelfId, Told>,
    /// Which account made an object, by uid.
    makers: HashMap<String, String>,
    /// Which account made a state, by its version.
    writers: HashMap<String, String>,
}

struct Told {
    follower: Follower,
    versions: HashMap<String, Vec<Arc<Value>>>,
}

impl World {
    /// The state of a server.
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
        self.told(group, resource, |told| told.versions.get(uid).cloned().unwrap_or_default())
    }

    /// Every state of every object of this name, of those that came later, too.
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
        self.told(group, resource, |told| {
            let lives = told.versions.values().filter(|life| life.first().is_some_and(|one| is_meant(one)));
            lives.flatten().cloned().collect()
        })
    }

    fn told<T: Default>(&self, group: &str, resource: &str, read: impl FnOnce(&Told) -> T) -> T {
        let shelf = ShelfId::new(group, resource);
        let mut memory = self.memory.lock();
        if !memory.catch_up(&self.server, &shelf) {
            memory.follow_anew(&self.server, &shelf);
        }
        memory.told.get(&shelf).map(read).unwrap_or_default()
    }

    /// Whether anybody but this account has changed the size of a set of pods.
    pub fn was_scaled_by_others(&self, account: &str, group: &str, resource: &str, set: &Value) -> bool {
        let versions = self.versions(group, resource, uid(set));
        let memory = self.memory.lock();
        versions.windows(2).any(|pair| {
            let writer = memory.writers.get(text(&pair[1]["metadata"]["resourceVersion"]));
            pair[0]["spec"]["replicas"] != pair[1]["spec"]["replicas"]
                && writer.is_none_or(|writer| writer != account)
        })
    }

    /// Whether this account has made the object.
    pub fn was_made_by(&self, account: &str, object: &Value) -> bool {
        self.memory.lock().makers.get(uid(object)).is_some_and(|maker| maker == account)
    }

    /// The pods that an account has made for an object, and that run or will. Pods that were adopted are not among
    /// them: they come when they like.
    pub fn live_pods(&self, account: &str, namespace: &str, owner: &str) -> Vec<Arc<Value>> {
        let mut pods = self.list("", "pods", Some(namespace));
        pods.retain(|pod| {
            super::values::manager(pod) == owner
                && super::values::is_live(pod)
                && self.was_made_by(account, pod)
        });
        pods
    }

    /// Takes note that the server was restored to an older version. States that are lost by that stay known: what was on
    /// its way when it happened may still be about them.
    pub fn restored(&self, version: u64) {
        let mut memory = self.memory.lock();
        memory.read.clear();
        memory.writers.retain(|written, _| written.parse().is_ok_and(|written: u64| written <= version));
        let shelves: Vec<ShelfId> = memory.told.keys().cloned().collect();
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

    /// Follows a resource from where it is now, and keeps what is known of it.
    fn follow_anew(&mut self, server: &ApiServer, shelf: &ShelfId) {
        let known = self.told.remove(shelf).map(|told| told.versions).unwrap_or_default();
        self.catch_up(server, shelf);
        let Some(told) = self.told.get_mut(shelf) else { return };
        for (uid, mut states) in known {
            let newer = told.versions.remove(&uid).unwrap_or_default();
            let is_known = |state: &Arc<Value>| states.last() == Some(state);
            let newer: Vec<_> = newer.into_iter().filter(|state| !is_known(state)).collect();
            states.extend(newer);
            told.versions.insert(uid, states);
        }
    }

    /// Reads on in the history of a resource; false if it no longer reaches back to where we were.
    fn catch_up(&mut self, server: &ApiServer, shelf: &ShelfId) -> bool {
        let store = server.store();
        if !self.told.contains_key(shelf) {
            let from_start = store.follow(shelf, 0).map(|follower| (follower, Vec::new()));
            let begun = from_start.or_else(|_| {
                // No lock is held between the two, but nobody else runs: this is one step of one thread.
                store.follow(shelf, store.version()).map(|follower| (follower, store.all(shelf, None)))
            });
            let Ok((follower, present)) = begun else { return false };
            let mut told = Told { follower, versions: HashMap::new() };
            for entry in present {
                told.add(self.read(shelf, &entry));
            }
            self.told.insert(shelf.clone(), told);
        }
        let Some(told) = self.told.get_mut(shelf) else { return false };
        loop {
            let Ok(events) = store.next(&mut told.follower, 1000) else { return false };
            for event in &events {
                if event.happened != Happened::Deleted || event.previous.is_some() {
                    told.add(Arc::new(event.entry.value()));
                }
            }
            if events.len() < 1000 {
                return true;
            }
        }
    }
}

impl Told {
    fn add(&mut self, object: Arc<Value>) {
        self.versions.entry(uid(&object).to_owned()).or_default().push(object);
    }
}
