//! State besides the caches: generated ResourceClaims and deleted consumers. Both are bounded, and dropped after a restore of etcd,
//! which may undo creations and deletions.

use std::collections::VecDeque;
use std::time::Duration;

use flyball_api::{ObjectMeta, ResourceVersion, Uid};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use tokio::time::Instant;

/// How many generated ResourceClaims are remembered, and for how long.
const CLAIMS: usize = 100;
const CLAIM_EXPIRY: Duration = Duration::from_secs(3600);
/// How many deleted consumers are remembered.
const CONSUMERS: usize = 500;

/// State that is dropped when etcd is restored.
#[derive(Debug, Default)]
pub(super) struct UntilRestore<T> {
    era: u64,
    memory: T,
}

impl<T: Default> UntilRestore<T> {
    /// The state of this era.
    pub(super) fn in_era(&mut self, era: u64) -> &mut T {
        if self.era != era {
            *self = Self { era, memory: T::default() };
        }
        &mut self.memory
    }
}

/// ResourceClaims that this process has generated. If one is deleted soon afterwards, no other is generated: the same name
/// is recorded again.
///
/// One that the cache should have shown by now and never did was not deleted: its creation was undone by a restore that no
/// cache could notice, and another has to be generated.
///
/// Upstream: the mutation cache of `pkg/controller/resourceclaim`, which keeps such ResourceClaims for an hour.
#[derive(Debug, Default)]
pub(super) struct Generated(VecDeque<Creation>);

#[derive(Debug)]
struct Creation {
    when: Instant,
    owner: Uid,
    entry: SmolStr,
    claim: SmolStr,
    uid: Uid,
    version: ResourceVersion,
    /// The number of the first list that began after it.
    list: u64,
    /// Whether the cache has shown it.
    is_shown: bool,
}

impl Generated {
    /// `list` is the number of the next list of ResourceClaims; `is_shown` says whether the cache has this one already.
    pub(super) fn add(&mut self, owner: Uid, entry: &str, claim: &ObjectMeta, list: u64, is_shown: bool) {
        while self.0.len() >= CLAIMS {
            self.0.pop_front();
        }
        self.0.push_back(Creation {
            when: Instant::now(),
            owner,
            entry: entry.into(),
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            version: claim.resource_version,
            list,
            is_shown,
        });
    }

    /// The cache shows a ResourceClaim.
    pub(super) fn shown(&mut self, uid: &Uid) {
        self.0
            .iter_mut()
            .filter(|creation| creation.uid == *uid)
            .for_each(|creation| creation.is_shown = true);
    }

    /// The ResourceClaim that was generated for an entry of an owner. `has_passed` says whether the cache has reached a version
    /// or completed the list of a number.
    pub(super) fn find(
        &self,
        owner: &Uid,
        entry: &str,
        has_passed: impl Fn(ResourceVersion, u64) -> bool,
    ) -> Option<SmolStr> {
        let found = self.0.iter().find(|creation| {
            creation.when.elapsed() < CLAIM_EXPIRY
                && creation.owner == *owner
                && creation.entry == entry
                && (creation.is_shown || !has_passed(creation.version, creation.list))
        });
        found.map(|creation| creation.claim.clone())
    }
}

/// Uids of consumers whose deletion was observed: they need not be read from the server.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    order: VecDeque<Uid>,
    /// With whether the consumer never ran, or had ended.
    uids: FxHashMap<Uid, bool>,
}

impl Deleted {
    pub(super) fn add(&mut self, uid: Uid, was_done: bool) {
        if self.uids.insert(uid.clone(), was_done).is_some() {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > CONSUMERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(super) fn has(&self, uid: &Uid) -> bool {
        self.uids.contains_key(uid)
    }

    /// Whether a deleted consumer never ran, or had ended.
    pub(super) fn was_done(&self, uid: &Uid) -> bool {
        self.uids.get(uid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str) -> ObjectMeta {
        let name = SmolStr::new("claim");
        ObjectMeta {
            name,
            uid: Uid::from(uid),
            resource_version: ResourceVersion(7),
            ..ObjectMeta::default()
        }
    }

    fn not_yet(_: ResourceVersion, _: u64) -> bool {
        false
    }

    #[test]
    fn memory_ends_with_the_era() {
        let mut generated = UntilRestore::<Generated>::default();
        generated.in_era(1).add(Uid::from("pod"), "entry", &claim("a"), 2, false);
        assert!(generated.in_era(1).find(&Uid::from("pod"), "entry", not_yet).is_some());
        assert!(generated.in_era(2).find(&Uid::from("pod"), "entry", not_yet).is_none());
    }

    #[test]
    fn a_creation_that_was_undone_is_not_remembered() {
        #[rustfmt::skip]
        let table = [
            // case                                                shown at once  later  reached  listed  remembered
            ("the cache lags behind",                              false,         false, 6,       1,      true),
            ("the cache has passed it without showing it",         false,         false, 7,       1,      false),
            ("a list at an earlier version does not have it",      false,         false, 5,       2,      false),
            ("it was shown, and then deleted",                     false,         true,  9,       2,      true),
            ("it was shown before the response, and then deleted", true,          false, 9,       2,      true),
        ];
        for (case, at_once, later, reached, listed, want) in table {
            let mut generated = Generated::default();
            generated.add(Uid::from("pod"), "entry", &claim("a"), 2, at_once);
            generated.shown(&Uid::from("other"));
            if later {
                generated.shown(&Uid::from("a"));
            }
            let has_passed = |version: ResourceVersion, list| reached >= version.0 || listed >= list;
            assert_eq!(generated.find(&Uid::from("pod"), "entry", has_passed).is_some(), want, "{case}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let uid = |n: usize| Uid::from(format!("uid-{n}").as_str());
        let (mut generated, mut deleted) = (Generated::default(), Deleted::default());
        for n in 0..2000 {
            generated.add(uid(n), "g", &claim("a"), 2, false);
            deleted.add(uid(n), n % 2 == 0);
            deleted.add(uid(n), n % 2 == 0);
        }
        assert_eq!(
            (generated.0.len(), deleted.order.len(), deleted.uids.len()),
            (CLAIMS, CONSUMERS, CONSUMERS)
        );
        assert_eq!(generated.find(&uid(1999), "g", not_yet).as_deref(), Some("claim"));
        assert_eq!(generated.find(&uid(1999), "other", not_yet), None);
        assert_eq!(generated.find(&uid(0), "g", not_yet), None);
        assert!(deleted.has(&uid(1999)) && !deleted.has(&uid(0)));
        assert!(deleted.was_done(&uid(1998)) && !deleted.was_done(&uid(1999)) && !deleted.was_done(&uid(0)));
    }
}
