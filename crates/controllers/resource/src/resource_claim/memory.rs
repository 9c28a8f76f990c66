//! State besides the caches: generated ResourceClaims and deleted consumers. Both are bounded, and dropped after a restore of etcd,
//! which may undo creations and deletions.

use std::collections::VecDeque;
use std::time::Duration;

use flyball_api::Uid;
use rustc_hash::FxHashSet;
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
/// Upstream: the mutation cache of `pkg/controller/resourceclaim`, which keeps such ResourceClaims for an hour.
#[derive(Debug, Default)]
pub(super) struct Generated(VecDeque<(Instant, Uid, SmolStr, SmolStr)>);

impl Generated {
    pub(super) fn add(&mut self, owner: Uid, entry: &str, claim: &str) {
        while self.0.len() >= CLAIMS {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), owner, entry.into(), claim.into()));
    }

    /// The ResourceClaim that was generated for an entry of an owner.
    pub(super) fn find(&self, owner: &Uid, entry: &str) -> Option<SmolStr> {
        let found = self.0.iter().find(|(when, of, for_entry, _)| {
            when.elapsed() < CLAIM_EXPIRY && of == owner && for_entry == entry
        });
        found.map(|(.., claim)| claim.clone())
    }
}

/// Uids of consumers whose deletion was observed: they need not be read from the server.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    order: VecDeque<Uid>,
    uids: FxHashSet<Uid>,
}

impl Deleted {
    pub(super) fn add(&mut self, uid: Uid) {
        if !self.uids.insert(uid.clone()) {
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
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_with_the_era() {
        let mut generated = UntilRestore::<Generated>::default();
        generated.in_era(1).add(Uid::from("pod"), "entry", "claim");
        assert!(generated.in_era(1).find(&Uid::from("pod"), "entry").is_some());
        assert!(generated.in_era(2).find(&Uid::from("pod"), "entry").is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let uid = |n: usize| Uid::from(format!("uid-{n}").as_str());
        let (mut generated, mut deleted) = (Generated::default(), Deleted::default());
        for n in 0..2000 {
            generated.add(uid(n), "g", "claim");
            deleted.add(uid(n));
            deleted.add(uid(n));
        }
        assert_eq!(
            (generated.0.len(), deleted.order.len(), deleted.uids.len()),
            (CLAIMS, CONSUMERS, CONSUMERS)
        );
        assert_eq!(generated.find(&uid(1999), "g").as_deref(), Some("claim"));
        assert_eq!(generated.find(&uid(1999), "other"), None);
        assert_eq!(generated.find(&uid(0), "g"), None);
        assert!(deleted.has(&uid(1999)) && !deleted.has(&uid(0)));
    }
}
