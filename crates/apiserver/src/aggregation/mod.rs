//! Aggregated API servers: versions of groups that an APIService leaves to another server. Requests for them are passed on, and
//! whether those servers can be reached is written into the `Available` condition.

mod check;
mod discovery;
mod proxy;
mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::path::RequestInfo;
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Key, ShelfId};

pub(crate) use proxy::answer;
pub(crate) use remote::Remote;

pub(crate) const GROUP: &str = "apiregistration.k8s.io";
pub(crate) const PLURAL: &str = "apiservices";

fn shelf() -> ShelfId {
    ShelfId::new(GROUP, PLURAL)
}

/// The registered servers, and when each APIService is to be checked.
#[derive(Default)]
pub(crate) struct Aggregation {
    state: Mutex<State>,
    /// Wakes the task that checks.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    remotes: Vec<Arc<Remote>>,
    /// By the name of the APIService. Local ones are in it until their condition is written.
    checks: BTreeMap<String, Check>,
    /// What each server said about its resources, by group and version.
    resources: BTreeMap<(String, String), Vec<Value>>,
    /// Grows with each change of the other fields that discovery shows.
    generation: u64,
    is_watched: bool,
}

/// When an APIService is checked next.
#[derive(Debug, Clone, Copy)]
struct Check {
    due: Instant,
    /// How often in a row it has failed.
    failures: u32,
}

impl Check {
    fn now() -> Self {
        Self { due: Instant::now(), failures: 0 }
    }
}

/// What discovery shows of another server.
#[derive(Clone)]
pub(crate) struct Delegated {
    pub(crate) remote: Arc<Remote>,
    /// `None` if it could not be asked.
    pub(crate) resources: Option<Vec<Value>>,
}

impl Aggregation {
    /// The server that a request is for, if it is another one.
    pub(crate) fn find(&self, info: &RequestInfo) -> Option<Arc<Remote>> {
        if info.group.is_empty() || info.version.is_empty() {
            return None;
        }
        let state = self.state.lock();
        let is_it = |remote: &&Arc<Remote>| remote.group == info.group && remote.version == info.version;
        state.remotes.iter().find(is_it).cloned()
    }

    /// A number that grows with each change of [`delegated`](Self::delegated).
    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    pub(crate) fn delegated(&self) -> Vec<Delegated> {
        let state = self.state.lock();
        let resources = |remote: &Remote| {
            let known = state.resources.get(&(remote.group.to_string(), remote.version.to_string()));
            known.filter(|_| remote.is_available).cloned()
        };
        let each =
            |remote: &Arc<Remote>| Delegated { remote: Arc::clone(remote), resources: resources(remote) };
        state.remotes.iter().map(each).collect()
    }

    /// Reads the APIServices in the store again. Those that have changed are checked at once.
    pub(crate) fn load(&self, server: &Inner) {
        let all: Vec<Value> = server.store.all(&shelf(), None).iter().map(|entry| entry.value()).collect();
        let mut state = self.state.lock();
        let mut checks = BTreeMap::new();
        let mut remotes = Vec::new();
        for object in &all {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let known = state.checks.get(&name).copied();
            match Remote::read(object) {
                Some(fresh) => {
                    let old =
                        state.remotes.iter().find(|old| old.name == fresh.name && old.spec == fresh.spec);
                    let check = known.filter(|_| old.is_some()).unwrap_or_else(Check::now);
                    checks.insert(name, check);
                    remotes.push(Arc::new(match old {
                        Some(old) => fresh.with_connection_of(old),
                        None => fresh,
                    }));
                }
                None if check::is_local(object) => {}
                None => drop(checks.insert(name, known.unwrap_or_else(Check::now))),
            }
        }
        let wanted: Vec<(String, String)> =
            remotes.iter().map(|remote| (remote.group.to_string(), remote.version.to_string())).collect();
        state.resources.retain(|known, _| wanted.contains(known));
        state.remotes = remotes;
        state.checks = checks;
        state.generation += 1;
        self.changed.notify_one();
    }

    /// Called after a write: APIServices decide where requests go, and their services and endpoints whether they arrive.
    pub(crate) fn after_write(&self, server: &Inner, resource: &Resource, key: &Key) {
        match (resource.group.as_str(), resource.plural.as_str()) {
            (GROUP, PLURAL) => self.load(server),
            ("", "services") => self.recheck(|service| service == key),
            ("discovery.k8s.io", "endpointslices") => {
                self.recheck(|service| service.namespace == key.namespace);
            }
            _ => {}
        }
    }

    fn recheck(&self, concerns: impl Fn(&Key) -> bool) {
        let mut state = self.state.lock();
        let State { remotes, checks, .. } = &mut *state;
        let mut any = false;
        for remote in remotes.iter().filter(|remote| concerns(&remote.service)) {
            if let Some(check) = checks.get_mut(remote.name.as_str()) {
                check.due = Instant::now();
                any = true;
            }
        }
        if any {
            self.changed.notify_one();
        }
    }

    /// Starts the task that checks, if there is something to check and it does not run. Called on a runtime.
    pub(crate) fn tend(server: &Arc<Inner>) {
        let mut state = server.aggregation.state.lock();
        if state.checks.is_empty() || std::mem::replace(&mut state.is_watched, true) {
            return;
        }
        drop(state);
        tokio::spawn(check::run(Arc::downgrade(server), Arc::clone(&server.aggregation.changed)));
    }

    /// The APIServices that are due, and how long it is until the next one is; `None` if there is nothing left to do.
    fn due(&self) -> Option<(Vec<String>, Duration)> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let Some(next) = state.checks.values().map(|check| check.due).min() else {
            state.is_watched = false;
            return None;
        };
        let due = state.checks.iter().filter(|(_, check)| check.due <= now);
        Some((due.map(|(name, _)| name.clone()).collect(), next.saturating_duration_since(now)))
    }

    /// Plans the next check of an APIService.
    fn checked(&self, name: &str, outcome: check::Outcome) {
        let mut state = self.state.lock();
        let Some(check) = state.checks.get_mut(name) else { return };
        match outcome {
            check::Outcome::Local => drop(state.checks.remove(name)),
            check::Outcome::Passed => *check = Check { due: Instant::now() + check::AGAIN, failures: 0 },
            check::Outcome::Failed => {
                let failures = check.failures.saturating_add(1);
                *check = Check { due: Instant::now() + check::backoff(failures), failures };
            }
        }
    }

    fn learn(&self, remote: &Remote, resources: Option<Vec<Value>>) {
        let mut state = self.state.lock();
        let of = (remote.group.to_string(), remote.version.to_string());
        if state.resources.get(&of) == resources.as_ref() {
            return;
        }
        match resources {
            Some(resources) => drop(state.resources.insert(of, resources)),
            None => drop(state.resources.remove(&of)),
        }
        state.generation += 1;
    }

    /// The task has ended, for whatever reason.
    fn unwatched(&self) {
        self.state.lock().is_watched = false;
    }
}

impl Drop for Aggregation {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}
