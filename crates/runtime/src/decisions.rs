//! The decision log: which controller did what to which object, why, and what came of it.
//!
//! Kept in a bounded ring for `/debug/decisions` and `flyball why`, and told live to whoever listens.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::intern::shared_str;
use flyball_api::{Key, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use smol_str::SmolStr;
use tokio::sync::broadcast;

use crate::plan::Waiting;

/// How many decisions are remembered.
const REMEMBERED: usize = 4096;
/// How many keys are remembered with what they wait for.
const REMEMBERED_WAITS: usize = 4096;
/// How many decisions a slow live listener may lag behind before it loses some.
const LISTENER_LAG: usize = 1024;

/// An object as the log names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// Kind of the object, or the plural of its resource where the kind is not known.
    pub kind: SmolStr,
    /// Namespace, empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    pub namespace: SmolStr,
    pub name: SmolStr,
}

impl Subject {
    /// Names the object of this kind and key.
    pub fn new(kind: impl Into<SmolStr>, key: &Key) -> Self {
        Self { kind: kind.into(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{}/{}", self.kind, self.name),
            false => write!(f, "{}/{}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "detail")]
pub enum Outcome {
    Done,
    /// The server refused; what it said.
    Refused(String),
    /// The answer was lost: it may have happened.
    Unknown(String),
    /// The request did not reach the server.
    NotSent(String),
}

#[derive(Debug, Clone, Serialize)]
pub struct Decision {
    /// Position in the log; grows by one.
    pub id: u64,
    #[serde(serialize_with = "as_text")]
    pub time: Timestamp,
    pub controller: &'static str,
    /// The key that was being reconciled.
    pub owner: SmolStr,
    /// `create`, `update`, `patch`, `delete`.
    pub action: &'static str,
    /// What was written, with its subresource.
    pub target: Subject,
    /// Subresource of the target, empty for the object itself.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub subresource: SmolStr,
    /// Why the controller did it.
    pub why: SmolStr,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long the request took, waiting for the rate limit included.
    #[serde(serialize_with = "as_millis")]
    pub took_ms: Duration,
}

fn as_text<S: serde::Serializer>(time: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&flyball_api::time::format_micros(*time))
}

fn as_millis<S: serde::Serializer>(took: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64((took.as_secs_f64() * 1e6).round() / 1e3)
}

impl Decision {
    /// Whether the decision was made for, or about, an object of this kind and name.
    pub fn concerns(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let target = &self.target;
        let about =
            target.kind.eq_ignore_ascii_case(kind) && target.name == name && target.namespace == namespace;
        let key = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        about || (self.owner == key && self.controller.starts_with(&kind.to_ascii_lowercase()))
    }
}

/// The log itself. Cheap to clone; all clones are one log.
#[derive(Clone)]
pub struct DecisionLog {
    inner: Arc<Inner>,
}

struct Inner {
    ring: Mutex<Ring>,
    waiting: Mutex<BTreeMap<(&'static str, Key), Vec<Waiting>>>,
    live: broadcast::Sender<Arc<Decision>>,
}

#[derive(Default)]
struct Ring {
    next: u64,
    /// In place, with texts that are shared: thousands of small pieces that live long would hold on to the memory
    /// of everything short-lived around them.
    kept: VecDeque<Decision>,
}

impl Default for DecisionLog {
    fn default() -> Self {
        let (live, _) = broadcast::channel(LISTENER_LAG);
        Self { inner: Arc::new(Inner { ring: Mutex::default(), waiting: Mutex::default(), live }) }
    }
}

impl DecisionLog {
    /// Writes one line. The id is given by the log.
    pub fn record(&self, mut decision: Decision) {
        decision.why = shared_str(&decision.why);
        let mut ring = self.inner.ring.lock();
        decision.id = ring.next;
        ring.next += 1;
        // Nobody listening is the normal case. Told under the lock, so that all hear it in the order of the log.
        if self.inner.live.receiver_count() > 0 {
            let _ = self.inner.live.send(Arc::new(decision.clone()));
        }
        if ring.kept.len() == REMEMBERED {
            ring.kept.pop_front();
        }
        ring.kept.push_back(decision);
    }

    /// The remembered decisions that `wanted` accepts, oldest first, at most the `limit` latest.
    pub fn recent(&self, limit: usize, wanted: impl Fn(&Decision) -> bool) -> Vec<Decision> {
        let ring = self.inner.ring.lock();
        let mut found: Vec<_> = ring.kept.iter().rev().filter(|d| wanted(d)).take(limit).cloned().collect();
        found.reverse();
        found
    }

    /// Notes what a key waits for, instead of what was noted before. Keys beyond a bound are left out.
    pub(crate) fn note_waiting(&self, controller: &'static str, owner: &Key, waiting: Vec<Waiting>) {
        let mut known = self.inner.waiting.lock();
        if waiting.is_empty() {
            // Most keys wait for nothing, and most of the time none does.
            if !known.is_empty() {
                known.remove(&(controller, owner.clone()));
            }
        } else if known.len() < REMEMBERED_WAITS || known.contains_key(&(controller, owner.clone())) {
            known.insert((controller, owner.clone()), waiting);
        }
    }

    /// What the key of a controller waits for.
    pub fn waiting(&self, controller: &str, owner: &Key) -> Vec<Waiting> {
        let known = self.inner.waiting.lock();
        let found = known.iter().find(|((name, key), _)| *name == controller && key == owner);
        found.map(|(_, waiting)| waiting.clone()).unwrap_or_default()
    }

    /// Hears every decision from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Decision>> {
        self.inner.live.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::pod::Pod;

    #[test]
    fn what_a_key_waits_for_is_replaced_and_bounded() {
        let (log, key) = (DecisionLog::default(), |n: usize| Key::new("ns", n.to_string()));
        let waiting = |until: &'static str| vec![Waiting::on::<Pod>(&Key::new("ns", "p"), until)];
        for n in 0..REMEMBERED_WAITS + 10 {
            log.note_waiting("a", &key(n), waiting("to become ready"));
        }
        assert!(log.waiting("a", &key(REMEMBERED_WAITS + 5)).is_empty(), "beyond the bound");
        log.note_waiting("a", &key(1), waiting("to stop"));
        assert_eq!(log.waiting("a", &key(1)), waiting("to stop"));
        assert!(log.waiting("b", &key(1)).is_empty(), "another controller's");
        log.note_waiting("a", &key(1), vec![]);
        assert!(log.waiting("a", &key(1)).is_empty());
        log.note_waiting("a", &key(REMEMBERED_WAITS + 5), waiting("to become ready"));
        assert_eq!(log.waiting("a", &key(REMEMBERED_WAITS + 5)).len(), 1, "there is room again");
    }
}
