//! Sees every write on its way to the server, and judges it right after the server has made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use flyball_apiserver::ApiServer;
use flyball_apiserver::store::{Key, ShelfId};
use flyball_client::{Body, Transport, TransportError};
use flyball_manager::table::{CONTROLLERS, Controller};
use flyball_runtime::Judge;
use futures::future::BoxFuture;
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Rule, Violation, World, Write, everyone, rest, rules};

/// More violations than anybody reads.
const TOLD: usize = 20;

/// What every controller with invariants of its own must keep.
const DECIDES: &str = "what it decides keeps its own invariants";

/// Judges writes by the rules.
pub struct Witness {
    world: World,
    tally: Mutex<Tally>,
    /// Of each controller manager that was started.
    decisions: Mutex<Vec<Arc<Judge>>>,
}

/// What a witness has seen.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub violations: Vec<Violation>,
    /// How many writes each controller has made. Controllers that share an account count together.
    pub writes: BTreeMap<&'static str, u64>,
    /// How often a rule of each controller was looked at.
    pub judged: BTreeMap<&'static str, u64>,
}

impl Witness {
    /// A witness at a server.
    pub fn at(server: ApiServer) -> Arc<Self> {
        Arc::new(Self { world: World::of(server), tally: Mutex::default(), decisions: Mutex::default() })
    }

    /// The state that rules look at.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Hears what becomes of the decisions of another controller manager.
    pub fn hear(&self, decisions: Option<Arc<Judge>>) {
        self.decisions.lock().extend(decisions);
    }

    /// Judges the cluster once it is at rest, for these controllers.
    pub fn judge_rest(&self, controllers: &[String]) {
        self.tally.lock().violations.extend(rest::broken(&self.world, controllers));
    }

    /// What it has seen so far.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.lock().clone();
        let broken =
            self.decisions.lock().iter().flat_map(|judge| judge.broken()).collect::<Vec<_>>().into_iter();
        tally.violations.extend(broken.map(|(controller, what)| Violation {
            controller,
            rule: DECIDES,
            what,
        }));
        tally
    }

    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Watched { witness: Arc::clone(self), inner })
    }

    /// Judges a write that has just been made.
    pub fn judge(&self, write: &Write) {
        self.world.note(write);
        let mut found = Vec::new();
        let mut judged = BTreeMap::<&'static str, u64>::new();
        let writer = first_of(&write.account);
        let own = rules().filter(|rule| account(rule.controller) == write.account);
        let common = everyone::RULES.iter();
        for Rule { controller, says, check } in own.chain(common) {
            let controller = if controller.is_empty() { writer } else { controller };
            *judged.entry(controller).or_default() += 1;
            if let Err(wrong) = check(&self.world, write) {
                found.push(Violation { controller, rule: says, what: format!("{}: {wrong}", told(write)) });
            }
        }
        let mut tally = self.tally.lock();
        for (controller, times) in judged {
            *tally.judged.entry(controller).or_default() += times;
        }
        *tally.writes.entry(writer).or_default() += 1;
        let room = TOLD.saturating_sub(tally.violations.len());
        tally.violations.extend(found.into_iter().take(room));
    }
}

/// The account that a controller writes as.
pub(super) fn account(controller: &str) -> &'static str {
    let found = CONTROLLERS.iter().find(|known| known.name == controller);
    found.and_then(|known| known.identity).unwrap_or("kcm")
}

/// The first controller that writes as an account.
fn first_of(account: &str) -> &'static str {
    let writes_as = |known: &&Controller| known.identity.unwrap_or("kcm") == account;
    CONTROLLERS.iter().find(writes_as).map_or("others", |known| known.name)
}

fn told(write: &Write) -> String {
    let Write { verb, resource, subresource, namespace, name, .. } = write;
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{slash}{subresource} {namespace}/{name}")
}

struct Watched {
    witness: Arc<Witness>,
    inner: Arc<dyn Transport>,
}

impl Transport for Watched {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let Some(mut write) = read(&request) else { return self.inner.send(request) };
        let (witness, inner) = (Arc::clone(&self.witness), Arc::clone(&self.inner));
        Box::pin(async move {
            let world = &witness.world;
            let version = world.server().store().version();
            write.before = world.get(&write.group, &write.resource, &write.namespace, &write.name);
            // In one go, so that what is found right after it is what it has done.
            let answer = tokio::task::unconstrained(inner.send(request)).await?;
            if answer.status().is_success() && world.server().store().version() > version {
                if write.verb == "create" && write.name.is_empty() {
                    write.name = newest(world.server(), &write, version);
                }
                write.after = world.get(&write.group, &write.resource, &write.namespace, &write.name);
                witness.judge(&write);
            }
            Ok(answer)
        })
    }
}

/// The name of what was created after `version`.
fn newest(server: &ApiServer, write: &Write, version: u64) -> String {
    let shelf = ShelfId::new(write.group.as_str(), write.resource.as_str());
    let namespace = Some(write.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let all = server.store().all(&shelf, namespace);
    let newest = all.iter().filter(|entry| entry.version > version).max_by_key(|entry| entry.version);
    newest.map_or_else(String::new, |entry| {
        let Key { name, .. } = &entry.key;
        name.to_string()
    })
}

/// Reads a write from a request; events, tokens, leases and reviews are none that rules are about.
fn read(request: &http::Request<Bytes>) -> Option<Write> {
    let agent = request.headers().get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let account = agent.and_then(|agent| agent.rsplit_once("/system:serviceaccount:kube-system:"));
    let path = request.uri().path();
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next()? {
        "api" => "",
        _ => parts.next()?,
    };
    let _version = parts.next()?;
    let mut parts: Vec<&str> = parts.collect();
    let mut namespace = "";
    if parts.len() > 2 && parts[0] == "namespaces" && !matches!(parts[2], "finalize" | "status") {
        namespace = parts[1];
        parts.drain(..2);
    }
    let part = |n: usize| parts.get(n).copied().unwrap_or_default();
    let (resource, name, subresource) = (part(0), part(1), part(2));
    let verb = match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => return None,
    };
    if matches!(resource, "events" | "leases" | "") || resource.ends_with("reviews") || subresource == "token"
    {
        return None;
    }
    let owned = str::to_owned;
    Some(Write {
        account: owned(account.map_or("kcm", |(_, account)| account)),
        verb,
        group: owned(group),
        resource: owned(resource),
        subresource: owned(subresource),
        namespace: owned(namespace),
        name: owned(name),
        body: serde_json::from_slice(request.body()).unwrap_or(Value::Null),
        ..Write::default()
    })
}
