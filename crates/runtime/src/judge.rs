//! Checks the decisions of controllers against their own invariants. Only simulations have a judge: in production no
//! invariant is evaluated.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many broken invariants are kept.
const KEPT: usize = 20;

/// Counts the decisions that were checked, and keeps the first that broke an invariant.
#[derive(Debug, Default)]
pub struct Judge {
    looked_at: AtomicU64,
    broken: Mutex<Vec<(&'static str, String)>>,
}

/// What a check of invariants returns: nothing, or what is wrong.
pub trait Verdict {
    fn wrong(self) -> Option<String>;
}

impl Verdict for Result<(), String> {
    fn wrong(self) -> Option<String> {
        self.err()
    }
}

impl Verdict for Vec<String> {
    fn wrong(self) -> Option<String> {
        (!self.is_empty()).then(|| self.join("; "))
    }
}

impl Judge {
    /// Notes one decision of a controller.
    pub fn note(&self, controller: &'static str, verdict: impl Verdict) {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let Some(wrong) = verdict.wrong() else { return };
        let mut broken = self.broken.lock();
        if broken.len() < KEPT {
            broken.push((controller, wrong));
        }
    }

    /// How many decisions were checked.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// The first decisions that broke an invariant: whose, and what is wrong.
    pub fn broken(&self) -> Vec<(&'static str, String)> {
        self.broken.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Judge;

    #[test]
    fn only_broken_invariants_are_reported() {
        let judge = Judge::default();
        judge.note("a", Ok::<(), String>(()));
        judge.note("b", Err::<(), String>("one".to_owned()));
        judge.note("c", Vec::<String>::new());
        judge.note("d", vec!["two".to_owned(), "three".to_owned()]);
        assert_eq!(judge.looked_at(), 4);
        assert_eq!(judge.broken(), [("b", "one".to_owned()), ("d", "two; three".to_owned())]);
    }
}
