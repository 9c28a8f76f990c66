//! Who is well: one check per running controller, for `/healthz`.
//!
//! A check that goes on failing makes a kubelet restart the process, and all its controllers with it. So what a restart
//! does not mend fails no check for long: a panic of a controller does for a while, so that it is seen, and a key in
//! quarantine does not at all. Both are remarked upon where somebody asks for more than yes or no.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::alarm::Place;

/// How long a panic of a controller fails its check: longer than a probe's usual period of ten seconds, so that it is
/// seen; much shorter than the eight periods after which a kubelet has had enough.
const TOLD_FOR: Duration = Duration::from_secs(15);
/// How long it is remarked upon.
const REMARKED_FOR: Duration = Duration::from_secs(600);

/// The state of all running controllers. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, Check>>>,
}

/// What is known about one controller.
#[derive(Debug, Default)]
struct Check {
    ill: Option<String>,
    complaint: Option<String>,
    /// When and where it panicked last, its syncs aside.
    panicked: Option<(Instant, Place)>,
    /// How many of its keys are in quarantine.
    quarantined: usize,
    /// Whether it has come to run, or failed to: before that there is nothing to say.
    is_known: bool,
}

impl Check {
    fn state(&self) -> Result<(), String> {
        if let Some(ill) = &self.ill {
            return Err(ill.clone());
        }
        if let Some((when, place)) = self.panicked.filter(|(when, _)| when.elapsed() < TOLD_FOR) {
            return Err(format!(
                "it panicked {} s ago (place: {place}) and is set up anew",
                when.elapsed().as_secs()
            ));
        }
        self.complaint.clone().map_or(Ok(()), Err)
    }

    fn remark(&self) -> Option<String> {
        let panicked = self.panicked.filter(|(when, _)| when.elapsed() < REMARKED_FOR);
        let panicked = panicked
            .map(|(when, place)| format!("panicked {} s ago (place: {place})", when.elapsed().as_secs()));
        let quarantined = match self.quarantined {
            0 => None,
            1 => Some("1 key in quarantine".to_owned()),
            keys => Some(format!("{keys} keys in quarantine")),
        };
        let remarks: Vec<String> = panicked.into_iter().chain(quarantined).collect();
        (!remarks.is_empty()).then(|| remarks.join(", "))
    }
}

impl Health {
    /// Says that `name` runs well.
    pub fn well(&self, name: &'static str) {
        self.change(name, |check| {
            check.ill = None;
            check.is_known = true;
        });
    }

    /// Says that `name` is not well, and why.
    pub fn ill(&self, name: &'static str, why: impl Into<String>) {
        self.change(name, |check| {
            check.ill = Some(why.into());
            check.is_known = true;
        });
    }

    /// Says that `name` panicked, so that more than one key has to suffer for it.
    pub(crate) fn panicked(&self, name: &'static str, place: Place) {
        self.change(name, |check| {
            check.panicked = Some((Instant::now(), place));
            check.is_known = true;
        });
    }

    /// Says how many keys of `name` are in quarantine.
    pub(crate) fn quarantined(&self, name: &'static str, keys: usize) {
        self.change(name, |check| check.quarantined = keys);
    }

    fn change(&self, name: &'static str, change: impl FnOnce(&mut Check)) {
        change(self.checks.lock().entry(name).or_default());
    }

    /// The way for `name` to say itself that it cannot do its work. What an earlier run of it said is withdrawn.
    pub(crate) fn complaint(&self, name: &'static str) -> Complaint {
        let complaint = Complaint { health: self.clone(), name };
        complaint.withdraw();
        complaint
    }

    /// Every check by name, with the reason where it fails.
    pub fn checks(&self) -> Vec<(&'static str, Result<(), String>)> {
        let checks = self.checks.lock();
        checks
            .iter()
            .filter(|(_, check)| check.is_known)
            .map(|(name, check)| (*name, check.state()))
            .collect()
    }

    /// What else there is to say of controllers, whether their checks pass or not.
    pub fn remarks(&self) -> Vec<(&'static str, String)> {
        self.checks.lock().iter().filter_map(|(name, check)| Some((*name, check.remark()?))).collect()
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
        self.health.change(self.name, |check| {
            check.complaint = Some(why.into());
            check.is_known = true;
        });
    }

    /// Says that all is well again.
    pub fn withdraw(&self) {
        self.health.change(self.name, |check| check.complaint = None);
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, TOLD_FOR};
    use crate::alarm::Place;

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
        health.ill("x", "no key");
        assert_eq!(told(), [Err("no key".to_owned())]);
        health.complaint("x");
        health.well("x");
        assert_eq!(told(), [Ok(())]);
        complaint.raise("no range");
        complaint.withdraw();
        assert_eq!(told(), [Ok(())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_fails_the_check_for_a_while_and_is_remarked_upon_for_longer() {
        let health = Health::default();
        health.panicked("x", Place::Trigger);
        assert!(health.checks()[0].1.as_ref().is_err_and(|why| why.contains("trigger")));
        health.well("x");
        assert!(health.checks()[0].1.is_err(), "that it runs again does not hide it from a probe");
        tokio::time::sleep(TOLD_FOR).await;
        assert_eq!(health.checks(), [("x", Ok(()))]);
        assert_eq!(health.remarks(), [("x", "panicked 15 s ago (place: trigger)".to_owned())]);
        tokio::time::sleep(super::REMARKED_FOR).await;
        assert_eq!(health.remarks(), []);
    }
}
