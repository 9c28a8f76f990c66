//! Keys whose sync panicked. They wait, longer each time, so that one poisoned object cannot keep its
//! controller from serving all others.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::Key;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);

/// Names a controller and an object (`replicaset-controller:ns/name`) whose sync is to panic, once; for tests
/// of what happens then.
const TEST_HOOK: &str = "FLYBALL_TEST_PANIC";

struct Poisoned {
    panics: u32,
    until: Instant,
}

/// The poisoned keys of one controller; survives its restarts.
#[derive(Clone, Default)]
pub(crate) struct Quarantine {
    keys: Arc<Mutex<FxHashMap<Key, Poisoned>>>,
    hook: Arc<Mutex<Option<String>>>,
}

impl Quarantine {
    pub(crate) fn new() -> Self {
        Self { keys: Arc::default(), hook: Arc::new(Mutex::new(std::env::var(TEST_HOOK).ok())) }
    }

    /// Puts a key away after its sync panicked.
    pub(crate) fn add(&self, key: &Key, _why: &str) {
        let mut keys = self.keys.lock();
        let poisoned = keys.entry(key.clone()).or_insert(Poisoned { panics: 0, until: Instant::now() });
        let wait = FIRST.saturating_mul(1 << poisoned.panics.min(16)).min(LONGEST);
        poisoned.panics = poisoned.panics.saturating_add(1);
        poisoned.until = Instant::now() + wait;
    }

    /// How long the key has to wait; `None` when it may be tried.
    pub(crate) fn wait(&self, key: &Key) -> Option<Duration> {
        let keys = self.keys.lock();
        let left = keys.get(key)?.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// The key came through.
    pub(crate) fn release(&self, key: &Key) {
        let mut keys = self.keys.lock();
        if !keys.is_empty() {
            keys.remove(key);
        }
    }

    /// Panics if a test asked for it.
    pub(crate) fn test_hook(&self, controller: &str, key: &Key) {
        let mut hook = self.hook.lock();
        let asked = hook.as_ref().is_some_and(|hook| *hook == format!("{controller}:{key}"));
        if asked {
            *hook = None;
            drop(hook);
            panic!("asked for by {TEST_HOOK}");
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}
