//! What the controller remembers about evictions between two syncs. Pure.

use std::collections::BTreeSet;

use flyball_api::{Key, Uid};
use flyball_client::Error;
use flyball_runtime::SyncError;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::plan::Eviction;

/// The evictions that this process has planned and made.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Pods with a planned eviction, until it is made or cancelled.
    planned: FxHashMap<Key, Uid>,
    /// Evictions whose response was lost. The pod counts as evicted if it is deleted when its key is synced again.
    unconfirmed: FxHashMap<Key, Eviction>,
    /// The rules because of which a pod was deleted, until the cache shows its deletion. Until then their status counts the
    /// pod as pending.
    deleted: FxHashMap<Key, BTreeSet<SmolStr>>,
    /// The number of evicted pods by the uid of the rule.
    by_rule: FxHashMap<SmolStr, usize>,
}

/// What the deletion of a pod shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// The eviction, if its response was lost.
    pub confirmed: Option<Eviction>,
    /// The rules that no longer count the pod as pending.
    pub rules: BTreeSet<SmolStr>,
}

/// What came of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanResult {
    Success,
    /// The response was lost: its write may have been made.
    OutcomeUnknown,
    Failure,
}

impl<T> From<&Result<T, SyncError>> for PlanResult {
    fn from(result: &Result<T, SyncError>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(error) if error.api_error().is_some_and(Error::outcome_unknown) => Self::OutcomeUnknown,
            Err(_) => Self::Failure,
        }
    }
}

impl Evictions {
    /// Records that the cache shows a pod as deleted.
    pub fn gone(&mut self, pod: &Key) -> Gone {
        self.planned.remove(pod);
        let confirmed = self.unconfirmed.remove(pod);
        if let Some(eviction) = &confirmed {
            self.made(pod, eviction);
        }
        Gone { confirmed, rules: self.deleted.remove(pod).unwrap_or_default() }
    }

    /// Records whether a pod that is not deleted has a planned eviction. Returns whether it had one before.
    pub fn schedule(&mut self, pod: &Key, uid: &Uid, is_planned: bool) -> bool {
        // The pod exists, so an eviction whose response was lost was not made.
        self.unconfirmed.remove(pod);
        let before = match is_planned {
            true => self.planned.insert(pod.clone(), uid.clone()),
            false => self.planned.remove(pod),
        };
        before.as_ref() == Some(uid)
    }

    /// Records what came of the plan for a pod. `eviction` is the one that the plan makes, if it makes one; `is_due`: it does
    /// not wait for its time. Returns the eviction if it was made.
    pub fn record<'e>(
        &mut self,
        pod: &Key,
        eviction: Option<&'e Eviction>,
        result: PlanResult,
        is_due: bool,
    ) -> Option<&'e Eviction> {
        match (result, eviction) {
            (PlanResult::Success, Some(eviction)) => self.made(pod, eviction),
            (PlanResult::OutcomeUnknown, Some(eviction)) => {
                self.unconfirmed.insert(pod.clone(), eviction.clone());
            }
            _ => {}
        }
        let has_succeeded = result == PlanResult::Success;
        if has_succeeded && is_due {
            self.planned.remove(pod);
        }
        eviction.filter(|_| has_succeeded)
    }

    fn made(&mut self, pod: &Key, eviction: &Eviction) {
        for rule in &eviction.rules {
            *self.by_rule.entry(rule.clone()).or_default() += 1;
        }
        self.deleted.insert(pod.clone(), eviction.rules.clone());
    }

    /// How many pods were evicted because of the rule with this uid.
    pub fn because_of(&self, rule: &str) -> usize {
        self.by_rule.get(rule).copied().unwrap_or_default()
    }

    /// Forgets the rules that do not exist any more.
    pub fn retain_rules(&mut self, exists: impl Fn(&SmolStr) -> bool) {
        self.by_rule.retain(|rule, _| exists(rule));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eviction(rules: &[&str]) -> Eviction {
        let rules = rules.iter().map(|rule| SmolStr::from(*rule)).collect();
        Eviction { due: flyball_api::Timestamp::UNIX_EPOCH, rules }
    }

    #[test]
    fn a_pod_counts_as_evicted_when_that_is_certain() {
        use PlanResult::{Failure, OutcomeUnknown, Success};
        #[rustfmt::skip]
        let table = [
            // case                                               results of its plan      synced again  evicted  confirmed
            ("made",                                              vec![Success],           true,          1,       false),
            ("its response was lost",                             vec![OutcomeUnknown],    false,         1,       true),
            ("refused",                                           vec![Failure],           false,         0,       false),
            ("lost, but the pod exists when it is synced again",  vec![OutcomeUnknown],    true,          0,       false),
            ("lost, then made",                                   vec![OutcomeUnknown, Success], false,   1,       false),
            ("a user deletes it",                                 vec![],                  true,          0,       false),
        ];
        for (case, results, is_synced_again, evicted, is_confirmed) in table {
            let (mut known, pod) = (Evictions::default(), Key::new("ns", "app"));
            let eviction = eviction(&["r"]);
            for result in results {
                known.schedule(&pod, &"u".into(), true);
                let made = known.record(&pod, Some(&eviction), result, true);
                assert_eq!(made.is_some(), result == Success, "{case}");
            }
            if is_synced_again {
                known.schedule(&pod, &"u".into(), true);
            }
            let gone = known.gone(&pod);
            assert_eq!((known.because_of("r"), gone.confirmed.is_some()), (evicted, is_confirmed), "{case}");
            assert_eq!(
                gone.rules.contains("r"),
                evicted == 1,
                "{case}: the rule counts one less that is pending"
            );
            assert_eq!(known.gone(&pod), Gone::default(), "{case}: nothing is left");
        }
    }

    #[test]
    fn an_eviction_was_planned_only_for_the_same_pod() {
        let (mut known, pod) = (Evictions::default(), Key::new("ns", "app"));
        let (one, other) = (Uid::from("1"), Uid::from("2"));
        assert!(!known.schedule(&pod, &one, true));
        assert!(known.schedule(&pod, &one, true));
        assert!(!known.schedule(&pod, &other, true), "another pod of that name");
        assert!(known.schedule(&pod, &other, false), "its eviction is cancelled");
        assert!(!known.schedule(&pod, &other, false));
        known.schedule(&pod, &one, true);
        known.record(&pod, None, PlanResult::Success, false);
        assert!(known.schedule(&pod, &one, true), "it waits for its time");
        known.record(&pod, None, PlanResult::Failure, true);
        assert!(known.schedule(&pod, &one, true), "it is tried again");
        known.record(&pod, None, PlanResult::Success, true);
        assert!(!known.schedule(&pod, &one, true), "it was due");
    }

    #[test]
    fn evictions_are_counted_until_their_rule_is_deleted() {
        let mut known = Evictions::default();
        known.made(&Key::new("ns", "a"), &eviction(&["r", "s"]));
        known.made(&Key::new("ns", "b"), &eviction(&["r"]));
        known.retain_rules(|rule| rule == "r");
        assert_eq!((known.because_of("r"), known.because_of("s")), (2, 0));
    }
}
