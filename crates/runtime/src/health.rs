//! Health: one check per running controller, for `/healthz`.
//!
//! If a check keeps failing, the kubelet restarts the process with all its controllers. So what a restart does not fix fails
//! no check for long: a panic of a controller fails it for some seconds, so that it is noticed; a key in quarantine does not
//! fail it. `/healthz?verbose` shows both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::panics::Place;

/// How long a panic of a controller fails its check: longer than the usual period of a probe (10 s), much shorter than the
/// eight periods after which a kubelet restarts the process.
const FAILS_FOR: Duration = Duration::from_secs(15);
/// How long the verbose output mentions it.
const REMARK_FOR: Duration = Duration::from_secs(600);

/// The state of all running controllers. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, Check>>>,
}

#[derive(Debug, Default)]
struct Check {
    unhealthy: Option<String>,
    complaint: Option<String>,
    /// When and where it panicked last, other than in a sync.
    panicked: Option<(Instant, Place)>,
    /// How many of its keys are in quarantine.
    quarantined: usize,
    /// Whether it has started or failed to start. Before that, it has no check.
    is_known: bool,
}

impl Check {
    fn state(&self) -> Result<(), String> {
        if let Some(why) = &self.unhealthy {
            return Err(why.clone());
        }
        if let Some((when, place)) = self.panicked.filter(|(when, _)| when.elapsed() < FAILS_FOR) {
            return Err(format!(
                "it panicked {} s ago (place: {place}) and is set up again",
                when.elapsed().as_secs()
            ));
        }
        self.complaint.clone().map_or(Ok(()), Err)
    }

    fn remark(&self) -> Option<String> {
        let panicked = self.panicked.filter(|(when, _)| when.elapsed() < REMARK_FOR);
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
    pub fn healthy(&self, name: &'static str) {
        self.change(name, |check| {
            check.unhealthy = None;
            check.is_known = true;
        });
    }

    pub fn unhealthy(&self, name: &'static str, why: impl Into<String>) {
        self.change(name, |check| {
            check.unhealthy = Some(why.into());
            check.is_known = true;
        });
    }

    /// Records a panic that affected more than one key.
    pub(crate) fn panicked(&self, name: &'static str, place: Place) {
        self.change(name, |check| {
            check.panicked = Some((Instant::now(), place));
            check.is_known = true;
        });
    }

    pub(crate) fn quarantined(&self, name: &'static str, keys: usize) {
        self.change(name, |check| check.quarantined = keys);
    }

    fn change(&self, name: &'static str, change: impl FnOnce(&mut Check)) {
        change(self.checks.lock().entry(name).or_default());
    }

    /// For the controller or component `name` to report that it cannot do its work. Withdraws the complaint of an earlier run.
    pub fn complaint(&self, name: &'static str) -> Complaint {
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

    /// What the verbose output adds, whether a check passes or not.
    pub fn remarks(&self) -> Vec<(&'static str, String)> {
        self.checks.lock().iter().filter_map(|(name, check)| Some((*name, check.remark()?))).collect()
    }
}

/// With this, a running controller reports that it cannot do its work.
#[derive(Debug, Clone)]
pub struct Complaint {
    health: Health,
    name: &'static str,
}

impl Complaint {
    /// Fails the controller's check until it is withdrawn.
    pub fn raise(&self, why: impl Into<String>) {
        self.health.change(self.name, |check| {
            check.complaint = Some(why.into());
            check.is_known = true;
        });
    }

    pub fn withdraw(&self) {
        self.health.change(self.name, |check| check.complaint = None);
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILS_FOR, Health};
    use crate::panics::Place;

    #[test]
    fn a_complaint_outlasts_the_state_from_the_supervisor_and_ends_with_the_run() {
        let health = Health::default();
        let states = || health.checks().into_iter().map(|(_, state)| state).collect::<Vec<_>>();
        let complaint = health.complaint("x");
        assert_eq!(states(), [], "nothing is known before it runs");
        health.healthy("x");
        complaint.raise("no range");
        assert_eq!(states(), [Err("no range".to_owned())]);
        health.healthy("x");
        assert_eq!(states(), [Err("no range".to_owned())]);
        health.unhealthy("x", "no key");
        assert_eq!(states(), [Err("no key".to_owned())]);
        health.complaint("x");
        health.healthy("x");
        assert_eq!(states(), [Ok(())]);
        complaint.raise("no range");
        complaint.withdraw();
        assert_eq!(states(), [Ok(())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_fails_the_check_for_some_time_and_is_mentioned_for_longer() {
        let health = Health::default();
        health.panicked("x", Place::Trigger);
        assert!(health.checks()[0].1.as_ref().is_err_and(|why| why.contains("trigger")));
        health.healthy("x");
        assert!(health.checks()[0].1.is_err(), "that it runs again does not hide it from a probe");
        tokio::time::sleep(FAILS_FOR).await;
        assert_eq!(health.checks(), [("x", Ok(()))]);
        assert_eq!(health.remarks(), [("x", "panicked 15 s ago (place: trigger)".to_owned())]);
        tokio::time::sleep(super::REMARK_FOR).await;
        assert_eq!(health.remarks(), []);
    }
}
