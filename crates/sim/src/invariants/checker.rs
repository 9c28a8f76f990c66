//! Sees every write on its way to the server, and checks the rules right after the server has made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use flyball_apiserver::ApiServer;
use flyball_apiserver::store::{Key, ShelfId};
use flyball_client::{Body, Transport, TransportError};
use flyball_cloud::CLOUD_CONTROLLER_MANAGER;
use flyball_manager::table::{CONTROLLERS, Controller};
use flyball_runtime::Judge;
use futures::future::BoxFuture;
use http::Method;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Rule, ServerState, Violation, Write, everyone, rest, rules};
use crate::faults::Link;

/// Violations beyond this number are dropped.
const MOST_VIOLATIONS: usize = 20;

/// The rule of every controller that has invariants.
const DECIDES: &str = "its plans keep its invariants";

pub struct RuleChecker {
    state: ServerState,
    findings: Mutex<Findings>,
    /// One per controller manager that was started.
    decisions: Mutex<Vec<Arc<Judge>>>,
}

#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub violations: Vec<Violation>,
    /// How many writes each controller has made. Controllers that share an account count together.
    pub writes: BTreeMap<&'static str, u64>,
    /// How often a rule of each controller was checked.
    pub judged: BTreeMap<&'static str, u64>,
}

impl RuleChecker {
    pub fn new(server: ApiServer) -> Arc<Self> {
        Arc::new(Self {
            state: ServerState::of(server),
            findings: Mutex::default(),
            decisions: Mutex::default(),
        })
    }

    /// The state that rules look at.
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// Adds the judge of another controller manager.
    pub fn add_judge(&self, decisions: Option<Arc<Judge>>) {
        self.decisions.lock().extend(decisions);
    }

    /// To be called when every controller manager has ended and its runtime is gone: whether anything of one still exists. Objects
    /// that hold each other are never freed.
    pub fn is_outlived(&self) -> bool {
        self.decisions.lock().iter().any(|judge| Arc::strong_count(judge) > 1)
    }

    /// Checks the rules for a cluster at rest, for these controllers.
    pub fn judge_rest(&self, controllers: &[String]) {
        self.findings.lock().violations.extend(rest::broken(&self.state, controllers));
    }

    /// The writes and violations so far.
    pub fn findings(&self) -> Findings {
        let mut findings = self.findings.lock().clone();
        let broken =
            self.decisions.lock().iter().flat_map(|judge| judge.broken()).collect::<Vec<_>>().into_iter();
        findings.violations.extend(broken.map(|(controller, what)| Violation {
            controller,
            rule: DECIDES,
            what,
        }));
        findings
    }

    /// The transport of the process with this connection.
    pub fn over(self: &Arc<Self>, inner: Arc<dyn Transport>, link: &Arc<Link>) -> Arc<dyn Transport> {
        Arc::new(Checked { checker: Arc::clone(self), inner, link: Arc::clone(link) })
    }

    /// Checks the rules for a write that has just been made.
    pub fn judge(&self, write: &Write) {
        self.state.note(write);
        let mut found = Vec::new();
        let mut judged = BTreeMap::<&'static str, u64>::new();
        let writer = first_of(&write.account);
        let own = rules().filter(|rule| account(rule.controller) == write.account);
        let common = everyone::RULES.iter();
        for Rule { controller, says, check } in own.chain(common) {
            let controller = if controller.is_empty() { writer } else { controller };
            *judged.entry(controller).or_default() += 1;
            if let Err(wrong) = check(&self.state, write) {
                found.push(Violation {
                    controller,
                    rule: says,
                    what: format!("{}: {wrong}", describe(write)),
                });
            }
        }
        let mut findings = self.findings.lock();
        for (controller, times) in judged {
            *findings.judged.entry(controller).or_default() += times;
        }
        *findings.writes.entry(writer).or_default() += 1;
        let room = MOST_VIOLATIONS.saturating_sub(findings.violations.len());
        findings.violations.extend(found.into_iter().take(room));
    }
}

/// The account of a controller.
pub(super) fn account(controller: &str) -> &'static str {
    let mut all = CONTROLLERS.iter().chain(CLOUD_CONTROLLER_MANAGER.controllers);
    all.find_map(|known| known.identity.filter(|_| known.name == controller)).unwrap_or("kcm")
}

/// The first controller with this account.
fn first_of(account: &str) -> &'static str {
    let writes_as = |known: &&Controller| known.identity.unwrap_or("kcm") == account;
    let mut all = CONTROLLERS.iter().chain(CLOUD_CONTROLLER_MANAGER.controllers);
    all.find(writes_as).map_or("others", |known| known.name)
}

fn describe(write: &Write) -> String {
    let Write { verb, resource, subresource, namespace, name, .. } = write;
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{slash}{subresource} {namespace}/{name}")
}

struct Checked {
    checker: Arc<RuleChecker>,
    inner: Arc<dyn Transport>,
    link: Arc<Link>,
}

impl Transport for Checked {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let Some(mut write) = read(&request) else { return self.inner.send(request) };
        let (checker, inner) = (Arc::clone(&self.checker), Arc::clone(&self.inner));
        write.is_by_former_leader = self.link.is_deposed();
        Box::pin(async move {
            let state = &checker.state;
            let version = state.server().store().version();
            write.before = state.get(&write.group, &write.resource, &write.namespace, &write.name);
            // Without yielding in between, so that the state right after it is the state that it has made.
            let answer = tokio::task::unconstrained(inner.send(request)).await?;
            if answer.status().is_success() && state.server().store().version() > version {
                if write.verb == "create" && write.name.is_empty() {
                    write.name = newest(state.server(), &write, version);
                }
                write.after = state.get(&write.group, &write.resource, &write.namespace, &write.name);
                checker.judge(&write);
            }
            Ok(answer)
        })
    }
}

/// The name of the object that was created after `version`.
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

/// Reads a write from a request; `None` for events, tokens, leases and reviews, which have no rules.
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
