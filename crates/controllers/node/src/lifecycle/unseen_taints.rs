//! The nodes that were tainted just now, until the cache shows it: they are not tainted again. Pure.

use flyball_api::ResourceVersion;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// A version that the cache of nodes has reached or will reach. If etcd is restored before that, the cache may not reach it for a
/// long time, and the taint may be lost: the version counts in its era only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub era: u64,
    pub version: ResourceVersion,
}

/// The versions that nodes got with their taints.
#[derive(Debug, Default)]
pub struct UnseenTaints(FxHashMap<SmolStr, Progress>);

impl UnseenTaints {
    pub fn insert(&mut self, node: SmolStr, tainted: Progress) {
        self.0.insert(node, tainted);
    }

    pub fn remove(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Whether a node has a taint that the cache, which is at `shown`, does not show yet. If not, it is forgotten.
    pub fn has(&mut self, node: &str, shown: Progress) -> bool {
        let is_unseen = |tainted: &Progress| tainted.era == shown.era && tainted.version > shown.version;
        let has = self.0.get(node).is_some_and(is_unseen);
        if !has {
            self.0.remove(node);
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(era: u64, version: &str) -> Progress {
        Progress { era, version: version.parse().unwrap() }
    }

    #[test]
    fn a_taint_is_unseen_until_the_cache_reaches_its_version_or_etcd_is_restored() {
        #[rustfmt::skip]
        let table = [
            // case                          shown        unseen
            ("the cache is behind",          at(1, "9"),  true),
            ("the cache shows it",           at(1, "10"), false),
            ("the cache has gone on",        at(1, "11"), false),
            ("etcd was restored meanwhile",  at(2, "9"),  false),
        ];
        for (case, shown, want) in table {
            let mut taints = UnseenTaints::default();
            taints.insert("a".into(), at(1, "10"));
            assert_eq!((taints.has("a", shown), taints.has("b", shown)), (want, false), "{case}");
            assert_eq!(taints.has("a", at(1, "9")), want, "{case}: once seen, it is forgotten");
        }
    }
}
