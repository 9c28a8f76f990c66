//! Eras: the times between restores of etcd. After a restore from a snapshot, versions continue from a lower one, and the
//! caches hold states that no longer exist: all of them are listed again.
//!
//! The server does not report a restore: it accepts a watch from a version in the future, and sends nothing. So after each
//! watch that broke off, the current version is checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use flyball_api::{Key, ResourceVersion};
use flyball_latest as latest;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::contact::Contact;
use crate::fanout::Subscription;
use crate::store::Header;
use crate::witness::Witness;

/// Counts restores of etcd, and calls handlers before each list or watch, since etcd may have been restored before it. Shared by
/// all informers of the process.
pub(crate) struct Era {
    restores: latest::Sender<u64>,
    began: Mutex<Instant>,
    /// The number of informers in doubt (see [`Doubt`]).
    in_doubt: latest::Sender<usize>,
    pub(crate) contact: Contact,
    on_connect: Mutex<Vec<Weak<ConnectHandler>>>,
    /// Informers of the API server's own resources.
    witnesses: Mutex<Vec<Weak<Witness>>>,
    /// When a check of a built-in resource last found no restore. Locked during a check.
    checked: tokio::sync::Mutex<Option<Instant>>,
}

type ConnectHandler = dyn Fn() + Send + Sync;

impl Default for Era {
    fn default() -> Self {
        Self {
            restores: latest::Sender::new(0),
            began: Mutex::new(Instant::now()),
            in_doubt: latest::Sender::new(0),
            contact: Contact::default(),
            on_connect: Mutex::default(),
            witnesses: Mutex::default(),
            checked: tokio::sync::Mutex::default(),
        }
    }
}

impl Era {
    pub(crate) fn now(&self) -> u64 {
        *self.restores.borrow()
    }

    /// Begins a new era, unless that has happened since `seen`: many informers notice the same restore.
    pub(crate) fn end(&self, seen: u64) -> bool {
        self.restores.send_if_modified(|era| {
            let ends = *era == seen;
            if ends {
                *self.began.lock() = Instant::now();
                *era += 1;
            }
            ends
        })
    }

    /// How long ago the present era began.
    pub(crate) fn lasts(&self) -> Duration {
        self.began.lock().elapsed()
    }

    /// Remembers an informer of a built-in resource: it can be checked in place of others.
    pub(crate) fn add_witness(&self, witness: &Arc<Witness>) {
        if Witness::is_built_in(&witness.state.resource) {
            let mut witnesses = self.witnesses.lock();
            witnesses.retain(|known| known.strong_count() > 0);
            witnesses.push(Arc::downgrade(witness));
        }
    }

    /// One of them.
    pub(crate) fn witness(&self) -> Option<Arc<Witness>> {
        self.witnesses.lock().iter().filter_map(Weak::upgrade).find(|witness| witness.is_comparable())
    }

    /// Whether a built-in resource shows a restore since `since`. Concurrent callers share one check. `None` if the check fails.
    pub(crate) async fn check_builtin(&self, since: Instant) -> Option<Evidence> {
        let mut checked = self.checked.lock().await;
        if checked.is_some_and(|at| at >= since) {
            return Some(Evidence::None);
        }
        let started = Instant::now();
        let (evidence, _) = self.witness()?.compare().await.ok()?;
        if evidence == Evidence::None {
            *checked = Some(started);
        }
        Some(evidence)
    }

    /// Calls `handler` each time before an informer lists or opens a watch.
    pub(crate) fn on_connect(&self, handler: Box<ConnectHandler>) -> Subscription {
        let handler: Arc<ConnectHandler> = handler.into();
        self.on_connect.lock().push(Arc::downgrade(&handler));
        Subscription::ending_with(handler)
    }

    /// To be called before a list or a watch is requested.
    pub(crate) fn connecting(&self) {
        let mut handlers = vec![];
        self.on_connect.lock().retain(|handler| {
            let handler = handler.upgrade();
            let is_subscribed = handler.is_some();
            handlers.extend(handler);
            is_subscribed
        });
        for handler in handlers {
            // A bug of one controller must not keep all informers from connecting.
            if catch_unwind(AssertUnwindSafe(|| handler())).is_err() {
                tracing::error!(
                    "a controller's handler for new connections of informers has panicked; see the earlier log line"
                );
            }
        }
    }

    /// The number of informers in doubt.
    pub(crate) fn doubts(&self) -> latest::Receiver<usize> {
        self.in_doubt.subscribe()
    }

    pub(crate) fn has_doubts(&self) -> bool {
        *self.in_doubt.borrow() > 0
    }

    /// Completes when an era later than `seen` has begun.
    pub(crate) async fn ended(&self, seen: u64) {
        let mut restores = self.restores.subscribe();
        if restores.wait_for(|era| *era > seen).await.is_err() {
            std::future::pending().await
        }
    }
}

/// An informer has lost its watch and has not checked yet whether etcd was restored meanwhile.
///
/// Controllers wait for that, so its length is bounded in two ways. Only time in which the server responds counts: while it does
/// not, nothing can be written either, and a restore may take minutes. And the durations of recent doubts are added up, so that a
/// resource whose watch keeps failing does not delay its controllers for the whole limit each time.
pub(crate) struct Doubt {
    era: Arc<Era>,
    state: Mutex<DoubtState>,
}

struct DoubtState {
    /// The time on the clock of [`Contact`] when it began.
    since: Option<Duration>,
    /// The sum of recent doubts, and the end of the latest.
    earlier: Duration,
    ended: Instant,
}

/// After this many times its own length, a doubt does not count any more: after ten minutes for half a minute.
const FORGET_AFTER: u32 = 20;

impl Doubt {
    pub(crate) fn new(era: Arc<Era>) -> Self {
        let state = DoubtState { since: None, earlier: Duration::ZERO, ended: Instant::now() };
        Self { era, state: Mutex::new(state) }
    }

    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        if state.since.is_none() {
            state.earlier = state.earlier.saturating_sub(state.ended.elapsed() / FORGET_AFTER);
            state.since = Some(self.era.contact.total());
            self.era.in_doubt.send_modify(|count| *count += 1);
        }
    }

    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        if let Some(since) = state.since.take() {
            state.earlier += self.era.contact.total().saturating_sub(since);
            state.ended = Instant::now();
            self.era.in_doubt.send_modify(|count| *count -= 1);
        }
    }

    /// How long it and recent ones have lasted while the server responded; `None` if there is none at present.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        let state = self.state.lock();
        state.since.map(|since| state.earlier + self.era.contact.total().saturating_sub(since))
    }
}

impl Doubt {
    /// The sum of this and recent doubts, as far as they are not forgotten.
    pub(crate) fn recent(&self) -> Duration {
        let current = self.lasts();
        let state = self.state.lock();
        current.unwrap_or_else(|| state.earlier.saturating_sub(state.ended.elapsed() / FORGET_AFTER))
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        self.end();
    }
}

/// The newest state that a cache has seen of any object.
pub(crate) struct Newest {
    pub(crate) key: Key,
    pub(crate) header: Header,
    pub(crate) is_deleted: bool,
}

/// The server's current version, and its state of the newest object in the cache.
pub(crate) struct Present {
    pub(crate) version: ResourceVersion,
    pub(crate) newest: Option<Header>,
}

/// What the server's current state says about a restore.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    None,
    /// The server's version is below one that the cache has seen.
    Restored,
    /// The server does not have the newest object of the cache. If it was deleted since, a watch will show that before it
    /// reaches the server's current version; if not, its creation was undone.
    Missing,
}

/// Whether the server's version is below one that a cache has seen. If it has since written more than it lost, its version is
/// no evidence; but it has the newest object of the cache in a version that the cache has never seen, or still has an object
/// that was deleted.
pub(crate) fn evidence(reached: ResourceVersion, newest: Option<&Newest>, present: &Present) -> Evidence {
    if present.version.is_unknown() {
        return Evidence::None;
    }
    let is_undone = match (newest, &present.newest) {
        (_, _) if present.version < reached => true,
        // At the version that the cache has reached, the server must have had it.
        (Some(seen), None) if !seen.is_deleted && present.version == reached => true,
        (Some(seen), None) if !seen.is_deleted => return Evidence::Missing,
        (Some(seen), Some(there)) if seen.is_deleted => there.uid == seen.header.uid,
        (Some(Newest { header, .. }), Some(there)) => {
            there.version <= reached && (there.version != header.version || there.uid != header.uid)
        }
        _ => false,
    };
    if is_undone { Evidence::Restored } else { Evidence::None }
}

#[cfg(test)]
mod tests {
    use flyball_api::Uid;

    use super::*;

    #[test]
    fn a_restore_is_detected_by_the_version_or_by_the_newest_object() {
        let object = |uid: &str, version| Header {
            uid: Uid::from(uid),
            version: ResourceVersion(version),
            deleting: false,
        };
        #[rustfmt::skip]
        let table = [
            // case                                             server  its newest object        evidence
            ("nothing has happened",                            20,     Some(object("a", 15)),   Evidence::None),
            ("others have written",                             90,     Some(object("a", 15)),   Evidence::None),
            ("the object has changed since",                    90,     Some(object("a", 25)),   Evidence::None),
            ("the object has gone",                             90,     None,                    Evidence::Missing),
            ("the object has gone, without a write",            20,     None,                    Evidence::Restored),
            ("the object was replaced since",                   90,     Some(object("b", 25)),   Evidence::None),
            ("the server is behind",                            19,     Some(object("a", 15)),   Evidence::Restored),
            ("the server is behind, the object has gone",       19,     None,                    Evidence::Restored),
            ("the server has caught up, the object is older",   90,     Some(object("a", 7)),    Evidence::Restored),
            ("the server has caught up, the object is another", 90,     Some(object("b", 15)),   Evidence::Restored),
            ("a change that the cache should have seen",        90,     Some(object("a", 18)),   Evidence::Restored),
            ("no versions at all",                              0,      None,                    Evidence::None),
        ];
        let check = |case: &str, version, newest, is_deleted, want| {
            let present = Present { version: ResourceVersion(version), newest };
            let seen = Newest { key: Key::new("ns", "x"), header: object("a", 15), is_deleted };
            assert_eq!(evidence(ResourceVersion(20), Some(&seen), &present), want, "{case}");
        };
        for (case, version, newest, want) in table {
            check(case, version, newest, false, want);
        }
        #[rustfmt::skip]
        let table = [
            // case                                             server  that object              evidence
            ("nothing has happened",                            20,     None,                    Evidence::None),
            ("the object is back",                              90,     Some(object("a", 7)),    Evidence::Restored),
            ("the object is back and was changed",              90,     Some(object("a", 25)),   Evidence::Restored),
            ("another was created since",                       90,     Some(object("b", 25)),   Evidence::None),
        ];
        for (case, version, newest, want) in table {
            check(case, version, newest, true, want);
        }
    }
}
