//! Who is well: one check per running controller, for `/healthz`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The state of all running controllers. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, Check>>>,
}

/// What is known about one controller.
#[derive(Debug, Default)]
struct Check {
    /// What its supervisor sees.
    ill: Option<String>,
    /// What it says itself.
    complaint: Option<String>,
}

impl Health {
    /// Says that `name` runs well.
    pub fn well(&self, name: &'static str) {
        self.checks.lock().entry(name).or_default().ill = None;
    }

    /// Says that `name` is not well, and why.
    pub fn ill(&self, name: &'static str, why: impl Into<String>) {
        self.checks.lock().entry(name).or_default().ill = Some(why.into());
    }

    /// The way for `name` to say itself that it cannot do its work. What an earlier run of it said is withdrawn.
    pub(crate) fn complaint(&self, name: &'static str) -> Complaint {
        let complaint = Complaint { health: self.clone(), name };
        complaint.withdraw();
        complaint
    }

    /// Every check by name, with the reason where it fails.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        let state =
            |check: &Check| check.ill.as_ref().or(check.complaint.as_ref()).cloned().map_or(Ok(()), Err);
        self.checks.lock().iter().map(|(name, check)| (*name, state(check))).collect()
    }
}

/// By which a controller that runs says that it cannot do its work, until that is mended.
#[derive(Debug, Clone)]
pub struct Complaint {
    health: Health,
    name: &'static str,
}

impl Complaint {
    /// Says why; `/healthz` fails until it is withdrawn.
    pub fn raise(&self, why: impl Into<String>) {
        self.health.checks.lock().entry(self.name).or_default().complaint = Some(why.into());
    }

    /// Says that all is well again.
    pub fn withdraw(&self) {
        if let Some(check) = self.health.checks.lock().get_mut(self.name) {
            check.complaint = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Health;

    #[test]
    fn a_complaint_outlasts_what_the_supervisor_says_and_ends_with_the_run() {
        let health = Health::default();
        let told = || health.checks().into_iter().map(|(_, state)| state).collect::<Vec<_>>();
        let complaint = health.complaint("x");
        assert_eq!(told(), [], "nothing is known before it runs");
        health.well("x");
        complaint.raise("no range");
        assert_eq!(told(), [Err("no range".to_owned())]);
        health.well("x");
        assert_eq!(told(), [Err("no range".to_owned())]);
        health.ill("x", "it panicked");
        assert_eq!(told(), [Err("it panicked".to_owned())]);
        health.complaint("x");
        health.well("x");
        assert_eq!(told(), [Ok(())]);
        complaint.raise("no range");
        complaint.withdraw();
        assert_eq!(told(), [Ok(())]);
    }
}
