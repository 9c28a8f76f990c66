//! What is remembered beside the caches: claims that were made, and consumers that are gone. Both are bounded.

use std::collections::VecDeque;
use std::time::Duration;

use flyball_api::Uid;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use tokio::time::Instant;

/// How many claims are remembered, and for how long.
const CLAIMS: usize = 100;
const CLAIM_LASTS: Duration = Duration::from_secs(3600);
/// How many consumers are remembered.
const CONSUMERS: usize = 500;

/// Claims that were made here. One that somebody deletes soon afterwards is not made again: it is recorded once more.
///
/// Upstream: the mutation cache of `pkg/controller/resourceclaim`, which answers for such claims for an hour.
#[derive(Debug, Default)]
pub(super) struct Made(VecDeque<(Instant, Uid, SmolStr, SmolStr)>);

impl Made {
    pub(super) fn add(&mut self, owner: Uid, entry: &str, claim: &str) {
        while self.0.len() >= CLAIMS {
            self.0.pop_front();
        }
        self.0.push_back((Instant::now(), owner, entry.into(), claim.into()));
    }

    /// The claim that was made for an entry of an owner.
    pub(super) fn find(&self, owner: &Uid, entry: &str) -> Option<SmolStr> {
        let found = self.0.iter().find(|(when, of, for_entry, _)| {
            when.elapsed() < CLAIM_LASTS && of == owner && for_entry == entry
        });
        found.map(|(.., claim)| claim.clone())
    }
}

/// Consumers that were seen to go: nobody need be asked about them.
#[derive(Debug, Default)]
pub(super) struct Gone {
    order: VecDeque<Uid>,
    uids: FxHashSet<Uid>,
}

impl Gone {
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
    fn what_is_remembered_is_bounded() {
        let uid = |n: usize| Uid::from(format!("uid-{n}").as_str());
        let (mut made, mut gone) = (Made::default(), Gone::default());
        for n in 0..2000 {
            made.add(uid(n), "g", "claim");
            gone.add(uid(n));
            gone.add(uid(n));
        }
        assert_eq!((made.0.len(), gone.order.len(), gone.uids.len()), (CLAIMS, CONSUMERS, CONSUMERS));
        assert_eq!(made.find(&uid(1999), "g").as_deref(), Some("claim"));
        assert_eq!(made.find(&uid(1999), "other"), None);
        assert_eq!(made.find(&uid(0), "g"), None);
        assert!(gone.has(&uid(1999)) && !gone.has(&uid(0)));
    }
}
