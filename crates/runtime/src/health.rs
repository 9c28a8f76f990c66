//! Who is well: one check per running controller, for `/healthz`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The state of all running controllers. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, Result<(), String>>>>,
}

impl Health {
    /// Says that `name` runs well.
    pub fn well(&self, name: &'static str) {
        self.checks.lock().insert(name, Ok(()));
    }

    /// Says that `name` is not well, and why.
    pub fn ill(&self, name: &'static str, why: impl Into<String>) {
        self.checks.lock().insert(name, Err(why.into()));
    }

    /// Every check by name, with the reason where it fails.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        self.checks.lock().iter().map(|(name, state)| (*name, state.clone())).collect()
    }
}
