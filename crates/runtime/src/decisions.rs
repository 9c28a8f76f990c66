//! The decision log: which controller wrote which object, why, and with which result; and what keys are waiting for.
//!
//! Both are bounded. `/debug/decisions`, `/debug/waiting` and `flyball why` show them; decisions can also be followed live.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};
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

    fn is(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.name == name && self.namespace == namespace
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

/// What one key of a controller is waiting for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wait {
    pub controller: &'static str,
    /// The object that is being reconciled. The kind is empty if the controller did not give it.
    pub object: Subject,
    #[serde(rename = "for")]
    pub waiting_for: Vec<Waiting>,
}

impl Wait {
    /// Whether this object is waiting, or is waited for.
    pub fn concerns(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let is = |subject: &Subject| subject.is(kind, namespace, name);
        let is_waiting = match self.object.kind.is_empty() {
            true => {
                self.object.name == name
                    && self.object.namespace == namespace
                    && self.controller.starts_with(&kind.to_ascii_lowercase())
            }
            false => is(&self.object),
        };
        let is_awaited = |waiting: &Waiting| matches!(waiting, Waiting::Object { object, .. } if is(object));
        is_waiting || self.waiting_for.iter().any(is_awaited)
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "detail")]
pub enum Outcome {
    Done,
    /// The server refused; what it said.
    Refused(String),
    /// The response was lost: it may have happened.
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
        let about = self.target.is(kind, namespace, name);
        let key = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        about || (self.owner == key && self.controller.starts_with(&kind.to_ascii_lowercase()))
    }
}

/// Where decisions are kept for longer, such as a journal on disk.
pub trait Archive: Send + Sync {
    /// At most the `limit` latest decisions that are wanted, oldest first. Of this process's only those with an id below `first`.
    fn find(&self, limit: usize, first: u64, wanted: &dyn Fn(&Decision) -> bool) -> Vec<Decision>;

    /// Whether decisions have been dropped from it.
    fn has_dropped(&self) -> bool;
}

/// Cheap to clone; all clones are one log.
#[derive(Clone)]
pub struct DecisionLog {
    inner: Arc<Inner>,
}

struct Inner {
    ring: Mutex<Ring>,
    waiting: Mutex<BTreeMap<(&'static str, Key), Wait>>,
    live: broadcast::Sender<Arc<Decision>>,
    archive: OnceLock<Arc<dyn Archive>>,
    tap: OnceLock<Tap>,
}

/// Gets every decision when it is recorded.
type Tap = Box<dyn Fn(&Decision) + Send + Sync>;

#[derive(Default)]
struct Ring {
    next: u64,
    /// Stored inline, with shared texts: thousands of small long-lived allocations would fragment the heap.
    kept: VecDeque<Decision>,
}

impl fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionLog").finish_non_exhaustive()
    }
}

impl Default for DecisionLog {
    fn default() -> Self {
        let (live, _) = broadcast::channel(LISTENER_LAG);
        let (archive, tap) = (OnceLock::new(), OnceLock::new());
        Self {
            inner: Arc::new(Inner { ring: Mutex::default(), waiting: Mutex::default(), live, archive, tap }),
        }
    }
}

impl DecisionLog {
    /// Appends a decision. The log sets its id.
    pub fn record(&self, mut decision: Decision) {
        decision.why = shared_str(&decision.why);
        let mut ring = self.inner.ring.lock();
        decision.id = ring.next;
        ring.next += 1;
        if let Some(tap) = self.inner.tap.get() {
            tap(&decision);
        }
        // Mostly there are no listeners. Sent under the lock, so that all receive decisions in the order of the log.
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

    /// The same, with those that only the archive has. Reads files: for people who ask.
    pub fn all(&self, limit: usize, wanted: impl Fn(&Decision) -> bool) -> Vec<Decision> {
        let first = self.first();
        let recent = self.recent(limit, &wanted);
        let Some(archive) = self.inner.archive.get().filter(|_| recent.len() < limit) else { return recent };
        let mut found = archive.find(limit - recent.len(), first, &wanted);
        found.extend(recent);
        found
    }

    /// Keeps older decisions here, too. Only the first archive counts.
    pub fn keep_in(&self, archive: Arc<dyn Archive>) {
        let _ = self.inner.archive.set(archive);
    }

    /// How many decisions are no longer remembered; with an archive, whether there are any.
    pub fn forgotten(&self) -> u64 {
        match self.inner.archive.get() {
            Some(archive) => archive.has_dropped().into(),
            None => self.first(),
        }
    }

    /// The id of the first decision that is remembered, or of the next one.
    fn first(&self) -> u64 {
        let ring = self.inner.ring.lock();
        ring.kept.front().map_or(ring.next, |oldest| oldest.id)
    }

    /// Replaces what a key waits for. `kind` is that of the key's object, if it is known. Keys beyond a bound are left out.
    pub(crate) fn record_waiting(
        &self,
        controller: &'static str,
        key: &Key,
        kind: SmolStr,
        waiting_for: Vec<Waiting>,
    ) {
        let mut known = self.inner.waiting.lock();
        if waiting_for.is_empty() {
            // Most keys wait for nothing, and most of the time none does.
            if !known.is_empty() {
                known.remove(&(controller, key.clone()));
            }
        } else if known.len() < REMEMBERED_WAITS || known.contains_key(&(controller, key.clone())) {
            let wait = Wait { controller, object: Subject::new(kind, key), waiting_for };
            known.insert((controller, key.clone()), wait);
        }
    }

    /// What keys wait for, as far as `wanted` accepts it, at most `limit` keys.
    pub fn waiting(&self, limit: usize, wanted: impl Fn(&Wait) -> bool) -> Vec<Wait> {
        self.inner.waiting.lock().values().filter(|wait| wanted(wait)).take(limit).cloned().collect()
    }

    /// Calls `tap` with every decision from now on, in the order of the log, before anything else can be decided: unlike a listener it
    /// cannot lag behind. It must be quick and must not use this log. Only the first tap counts.
    pub fn tap(&self, tap: impl Fn(&Decision) + Send + Sync + 'static) {
        let _ = self.inner.tap.set(Box::new(tap));
    }

    /// Every decision from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Decision>> {
        self.inner.live.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_api::pod::Pod;

    fn waiting_on(log: &DecisionLog, controller: &str, key: &Key) -> Vec<Waiting> {
        let of_key = |wait: &Wait| wait.controller == controller && wait.object == Subject::new("Set", key);
        log.waiting(1, of_key).pop().map(|wait| wait.waiting_for).unwrap_or_default()
    }

    #[test]
    fn a_tap_misses_nothing_however_much_is_decided_at_once() {
        let (log, seen) = (DecisionLog::default(), Arc::new(Mutex::new(Vec::new())));
        log.tap({
            let seen = Arc::clone(&seen);
            move |decision| seen.lock().push(decision.id)
        });
        log.tap(|_| panic!("only the first counts"));
        let count = REMEMBERED as u64 + 10;
        for _ in 0..count {
            log.record(Decision {
                id: 0,
                time: Timestamp::UNIX_EPOCH,
                controller: "a",
                owner: "ns/a".into(),
                action: "create",
                target: Subject::new("Pod", &Key::new("ns", "a")),
                subresource: SmolStr::default(),
                why: "because".into(),
                outcome: Outcome::Done,
                took_ms: Duration::ZERO,
            });
        }
        assert_eq!(*seen.lock(), (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_key_waits_for_is_replaced_and_bounded() {
        let (log, key) = (DecisionLog::default(), |n: usize| Key::new("ns", n.to_string()));
        let waiting = |until: &'static str| vec![Waiting::on::<Pod>(&Key::new("ns", "p"), until)];
        let note = |n: usize, waiting| log.record_waiting("a", &key(n), "Set".into(), waiting);
        for n in 0..REMEMBERED_WAITS + 10 {
            note(n, waiting("to become ready"));
        }
        assert!(waiting_on(&log, "a", &key(REMEMBERED_WAITS + 5)).is_empty(), "beyond the bound");
        note(1, waiting("to stop"));
        assert_eq!(waiting_on(&log, "a", &key(1)), waiting("to stop"));
        assert!(waiting_on(&log, "b", &key(1)).is_empty(), "another controller's");
        note(1, vec![]);
        assert!(waiting_on(&log, "a", &key(1)).is_empty());
        note(REMEMBERED_WAITS + 5, waiting("to become ready"));
        assert_eq!(waiting_on(&log, "a", &key(REMEMBERED_WAITS + 5)).len(), 1, "there is room again");
    }

    #[test]
    fn a_wait_is_found_by_who_waits_and_by_what_is_awaited() {
        let wait = |kind: &str| Wait {
            controller: "replicaset-controller",
            object: Subject::new(kind, &Key::new("ns", "web")),
            waiting_for: vec![Waiting::on::<Pod>(&Key::new("ns", "web-1"), "to become ready")],
        };
        #[rustfmt::skip]
        let table = [
            // kind noted     kind         name     found
            ("ReplicaSet",   "replicaset", "web",   true),
            ("ReplicaSet",   "pod",        "web-1", true),
            ("ReplicaSet",   "pod",        "web",   false),
            ("ReplicaSet",   "job",        "web",   false),
            ("",             "ReplicaSet", "web",   true),
            ("",             "Job",        "web",   false),
        ];
        for (noted, kind, name, found) in table {
            assert_eq!(wait(noted).concerns(kind, "ns", name), found, "{noted:?}: {kind}/{name}");
        }
        assert!(!wait("ReplicaSet").concerns("ReplicaSet", "other", "web"));
    }
}
