//! Explains one object on request: with the engine of `flyball why`, and the decisions of this process.
//!
//! An explanation costs some requests to the API server, so few are made at once, and one that is new is shown again. Secrets
//! are not explained: nothing here reads one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_client::{Client, Discovery};
use flyball_explain::kinds::known;
use flyball_explain::{Failure, Log, Ref, World, explain, gather};
use flyball_runtime::decisions::{Decision, Wait};
use parking_lot::Mutex;
use serde_json::{Value, json, to_value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::sources::Sources;

/// Explanations that are made at once.
const CONCURRENCY: usize = 2;
/// How long one may take, waiting included.
const WITHIN: Duration = Duration::from_secs(15);
/// For how long an explanation counts as new, and how many are kept.
const NEW_FOR: Duration = Duration::from_secs(3);
const KEPT: usize = 32;
/// For how long the kinds of the cluster are taken to be known.
const DISCOVERED_FOR: Duration = Duration::from_secs(60);
/// Decisions and waits that an explanation looks at, and entries of its history.
const DECISIONS: usize = 4096;
const HISTORY: usize = 60;

/// An object as a visitor names it: the kind as for kubectl.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) group: Option<String>,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Why there is no explanation, for the visitor.
pub(crate) enum Unexplained {
    /// There is no such kind or object, or it may not be shown.
    Absent(String),
    /// It could not be read.
    Failed(String),
}

pub(crate) struct Why {
    places: Semaphore,
    made: Mutex<VecDeque<(Ref, Instant, Bytes)>>,
    discovery: tokio::sync::Mutex<Option<(Instant, Arc<Discovery>)>>,
}

impl Default for Why {
    fn default() -> Self {
        Self {
            places: Semaphore::new(CONCURRENCY),
            made: Mutex::default(),
            discovery: tokio::sync::Mutex::default(),
        }
    }
}

impl Why {
    /// The explanation as JSON.
    pub(crate) async fn explain(&self, sources: &Sources, asked: &Asked) -> Result<Bytes, Unexplained> {
        let made = timeout(WITHIN, self.make(sources, asked)).await;
        made.unwrap_or_else(|_| {
            Err(Unexplained::Failed("the API server did not answer in time; try again".to_owned()))
        })
    }

    async fn make(&self, sources: &Sources, asked: &Asked) -> Result<Bytes, Unexplained> {
        let failed =
            |error: flyball_client::Error| Unexplained::Failed(flyball_runtime::Chain(&error).to_string());
        let _place =
            self.places.acquire().await.map_err(|_| Unexplained::Failed("it is closed".to_owned()))?;
        let object = self.resolve(&sources.client, asked).await?;
        if let Some(made) = self.remembered(&object) {
            return Ok(made);
        }
        // Owners may be of any kind.
        let discovery = match self.discovered(&sources.client).await {
            Err(_) if known(&object.kind).is_some() => Arc::default(),
            discovered => discovered.map_err(failed)?,
        };
        let now = sources.clock.now();
        let read = gather::gather(&sources.client, &discovery, &object, now).await;
        let mut world = read.map_err(failed)?;
        remember(sources, &mut world, &object);
        let explanation = explain(&world, &object, None, HISTORY);
        let explanation = explanation.map_err(|failure| match failure {
            Failure::Absent(object) => gone(sources, &object),
            Failure::Unread(_) => Unexplained::Failed(failure.to_string()),
        })?;
        let bytes = Bytes::from(serde_json::to_vec(&explanation).unwrap_or_default());
        self.keep(object, bytes.clone());
        Ok(bytes)
    }

    /// The object's kind as the API server names it.
    async fn resolve(&self, client: &Client, asked: &Asked) -> Result<Ref, Unexplained> {
        let of = |group: &str, kind: &str, namespaced: bool| {
            let namespace = if namespaced { asked.namespace.as_str() } else { "" };
            Ref::new(group, kind, namespace, &asked.name)
        };
        let is_group = |group: &str| asked.group.as_deref().is_none_or(|given| given == group);
        let object = match known(&asked.kind).filter(|found| is_group(&found.group)) {
            Some(found) => of(&found.group, &found.kind, found.namespaced),
            None => {
                let discovery = self.discovered(client).await;
                let discovery = discovery.map_err(|error| Unexplained::Failed(error.to_string()))?;
                let name = match &asked.group {
                    Some(group) if !group.is_empty() => format!("{}.{group}", asked.kind),
                    _ => asked.kind.clone(),
                };
                let found = discovery.named(&name);
                let found = found.ok_or_else(|| {
                    Unexplained::Absent(format!("the cluster has no kind {:?}", asked.kind))
                })?;
                of(&found.group, &found.kind, found.namespaced)
            }
        };
        match (object.group.as_str(), object.kind.as_str()) {
            ("", "Secret") => Err(Unexplained::Absent("Secrets are not shown here".to_owned())),
            _ => Ok(object),
        }
    }

    async fn discovered(&self, client: &Client) -> Result<Arc<Discovery>, flyball_client::Error> {
        let mut known = self.discovery.lock().await;
        if let Some((when, discovery)) = &*known
            && when.elapsed() < DISCOVERED_FOR
        {
            return Ok(discovery.clone());
        }
        let discovery = Arc::new(client.discover().await?);
        *known = Some((Instant::now(), discovery.clone()));
        Ok(discovery)
    }

    fn remembered(&self, object: &Ref) -> Option<Bytes> {
        let made = self.made.lock();
        let found = made.iter().find(|(known, when, _)| known == object && when.elapsed() < NEW_FOR);
        found.map(|(_, _, bytes)| bytes.clone())
    }

    fn keep(&self, object: Ref, bytes: Bytes) {
        let mut made = self.made.lock();
        made.retain(|(known, when, _)| *known != object && when.elapsed() < NEW_FOR);
        if made.len() == KEPT {
            made.pop_front();
        }
        made.push_back((object, Instant::now(), bytes));
    }
}

/// What controllers did to an object that is gone.
fn gone(sources: &Sources, object: &Ref) -> Unexplained {
    let is_it = |decision: &Decision| {
        let target = &decision.target;
        target.kind.eq_ignore_ascii_case(&object.kind)
            && target.namespace == object.namespace
            && target.name == object.name
    };
    let last = sources.decisions.recent(1, is_it).pop().map(|decision| {
        let Decision { time, controller, action, why, .. } = decision;
        let time = flyball_api::time::format_seconds(time);
        format!("; the last that a controller did to it: {action} ({controller}), {time}: {why}")
    });
    Unexplained::Absent(format!("{object} does not exist{}", last.unwrap_or_default()))
}

/// Adds what this process remembers: the decisions in the object's namespace, since dependents count, too.
fn remember(sources: &Sources, world: &mut World, object: &Ref) {
    let (kind, namespace, name) = (object.kind.as_str(), object.namespace.as_str(), object.name.as_str());
    let is_near = |decision: &Decision| match namespace.is_empty() {
        true => decision.concerns(kind, namespace, name),
        false => decision.target.namespace == namespace,
    };
    let is_awaited = |wait: &Wait| match namespace.is_empty() {
        true => wait.concerns(kind, namespace, name),
        false => wait.object.namespace == namespace,
    };
    let decisions = sources.decisions.recent(DECISIONS, is_near);
    let waits = sources.decisions.waiting(DECISIONS, is_awaited);
    // The engine has types of its own for them, since it usually reads them from another process.
    world.decisions = own(&json!(decisions));
    world.waits = own(&to_value(waits).unwrap_or_default());
    world.log = Log::Read { forgotten: sources.decisions.forgotten() };
}

fn own<T: serde::de::DeserializeOwned>(list: &Value) -> Vec<T> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| T::deserialize(item).ok()).collect()
}
