//! Checks the decisions of controllers against their own invariants. Only simulations have a judge: in production no
//! invariant is evaluated.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many broken invariants are kept.
const KEPT: usize = 20;

/// Counts the decisions that were checked, and keeps the first that broke an invariant.
#[derive(Debug, Default)]
pub struct Judge {
    checked: AtomicU64,
    broken: Mutex<Vec<(&'static str, String)>>,
}

impl Judge {
    /// Records the result of checking one decision of a controller.
    pub fn record(&self, controller: &'static str, result: Result<(), String>) {
        self.checked.fetch_add(1, Ordering::Relaxed);
        let Err(wrong) = result else { return };
        let mut broken = self.broken.lock();
        if broken.len() < KEPT {
            broken.push((controller, wrong));
        }
    }

    /// How many decisions were checked.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// The first violations: the controller, and a description.
    pub fn broken(&self) -> Vec<(&'static str, String)> {
        self.broken.lock().clone()
    }
}

/// The result of a check, from the violations that it has collected.
pub fn all_hold(broken: Vec<String>) -> Result<(), String> {
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::{Judge, all_hold};

    #[test]
    fn only_broken_invariants_are_reported() {
        let judge = Judge::default();
        judge.record("a", Ok(()));
        judge.record("b", all_hold(vec!["one".to_owned(), "two".to_owned()]));
        judge.record("c", all_hold(vec![]));
        assert_eq!(judge.checked(), 3);
        assert_eq!(judge.broken(), [("b", "one; two".to_owned())]);
    }
}
