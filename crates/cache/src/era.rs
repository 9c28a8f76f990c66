//! Eras: the times between restores of etcd. After a restore from a snapshot, versions continue from a lower one, and the
//! caches hold states that no longer exist: all of them are listed again.
//!
//! The server does not report a restore: it accepts a watch from a version in the future, and sends nothing. So after each
//! watch that broke off, the current version is checked.

use flyball_api::ResourceVersion;
use tokio::sync::watch;

use crate::store::Header;

/// Counts restores. Shared by all informers of the process.
pub(crate) struct Era {
    restores: watch::Sender<u64>,
}

impl Default for Era {
    fn default() -> Self {
        Self { restores: watch::Sender::new(0) }
    }
}

impl Era {
    pub(crate) fn now(&self) -> u64 {
        *self.restores.borrow()
    }

    /// Begins a new era, unless that has happened since `seen`: many informers notice the same restore.
    pub(crate) fn end(&self, seen: u64) -> bool {
        self.restores.send_if_modified(|era| {
            let ends = *era == seen;
            *era += u64::from(ends);
            ends
        })
    }

    /// Completes when an era later than `seen` has begun.
    pub(crate) async fn ended(&self, seen: u64) {
        let mut restores = self.restores.subscribe();
        if restores.wait_for(|era| *era > seen).await.is_err() {
            std::future::pending().await
        }
    }
}

/// The server's current version, and its state of the newest object in the cache.
pub(crate) struct Present {
    pub(crate) version: ResourceVersion,
    pub(crate) newest: Option<Header>,
}

/// Whether the server has gone back behind what a cache has seen. If it has since written more than it lost, its version is
/// no evidence; but it has the newest object of the cache in a version that the cache has never seen.
pub(crate) fn is_restored(reached: ResourceVersion, newest: Option<&Header>, present: &Present) -> bool {
    if present.version.is_unknown() {
        return false;
    }
    present.version < reached
        || newest.zip(present.newest.as_ref()).is_some_and(|(held, there)| {
            there.version <= reached && (there.version != held.version || there.uid != held.uid)
        })
}

#[cfg(test)]
mod tests {
    use flyball_api::Uid;

    use super::*;

    #[test]
    fn a_restore_is_detected_by_the_version_or_by_the_newest_object() {
        let object = |uid: &str, version| Header {
            uid: Uid::from(uid),
            version: ResourceVersion(version),
            deleting: false,
        };
        #[rustfmt::skip]
        let table = [
            // case                                             server  its newest object        went back
            ("nothing has happened",                            20,     Some(object("a", 15)),   false),
            ("others have written",                             90,     Some(object("a", 15)),   false),
            ("the object has changed since",                    90,     Some(object("a", 25)),   false),
            ("the object has gone since",                       90,     None,                    false),
            ("the object was replaced since",                   90,     Some(object("b", 25)),   false),
            ("the server is behind",                            19,     Some(object("a", 15)),   true),
            ("the server has caught up, the object is older",   90,     Some(object("a", 7)),    true),
            ("the server has caught up, the object is another", 90,     Some(object("b", 15)),   true),
            ("a change that the cache should have seen",        90,     Some(object("a", 18)),   true),
            ("no versions at all",                              0,      None,                    false),
        ];
        for (case, version, newest, want) in table {
            let present = Present { version: ResourceVersion(version), newest };
            assert_eq!(is_restored(ResourceVersion(20), Some(&object("a", 15)), &present), want, "{case}");
        }
    }
}
