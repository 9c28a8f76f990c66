//! What comes together is not always seen together, as every kind is watched by itself: who misses something that was
//! made just before it, and whose watch may be behind, gives it a moment, and complains only then.

use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// Long for a watch, and short for whoever waits to be told.
pub const MOMENT: Duration = Duration::from_millis(100);

const MOST: usize = 10_000;

/// Those who have missed something, until they are forgotten.
#[derive(Debug)]
pub struct Moments<K>(Mutex<FxHashSet<K>>);

impl<K> Default for Moments<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Moments<K> {
    /// Whether `who`, who misses something, has had its moment. If not, it is to look again after [`MOMENT`].
    pub fn had(&self, who: &K) -> bool {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            // A second moment does no harm.
            known.clear();
        }
        !known.insert(who.clone())
    }

    /// `who` is gone, or misses nothing. Says whether it has had a moment.
    pub fn forget(&self, who: &K) -> bool {
        self.0.lock().remove(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_each() {
        let moments = Moments::default();
        assert!(!moments.had(&"a") && moments.had(&"a") && !moments.had(&"b"));
        assert!(moments.forget(&"a") && !moments.forget(&"a"));
        assert!(!moments.had(&"a"));
    }
}
