//! Times between restores. When etcd is restored from a snapshot, versions begin anew at a lower one, and whatever any
//! cache of this process has seen may never have happened: all of them are listed anew.
//!
//! Whether that has happened is asked after each watch that broke off, as the server itself does not tell: it accepts a
//! watch from a version that is still to come, and is silent.

use flyball_api::ResourceVersion;
use tokio::sync::watch;

use crate::store::Header;

/// How often the server has been seen to go back. Shared by all informers of the process.
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

    /// The server has gone back since `seen`. Many notice that at once, and it counts once.
    pub(crate) fn end(&self, seen: u64) -> bool {
        self.restores.send_if_modified(|era| {
            let ends = *era == seen;
            *era += u64::from(ends);
            ends
        })
    }

    /// Completes when a later era than `seen` has begun.
    pub(crate) async fn ended(&self, seen: u64) {
        let mut restores = self.restores.subscribe();
        if restores.wait_for(|era| *era > seen).await.is_err() {
            std::future::pending().await
        }
    }
}

/// What the server says when it is asked for its version, and for the newest object that the cache holds.
pub(crate) struct Present {
    pub(crate) version: ResourceVersion,
    pub(crate) newest: Option<Header>,
}

/// Whether the server has gone back behind what a cache has seen. One that has written more since than it lost is told by
/// the newest object of the cache, which it has in a version that the cache has never seen.
pub(crate) fn went_back(reached: ResourceVersion, newest: Option<&Header>, present: &Present) -> bool {
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
    fn a_server_that_went_back_is_told_by_its_version_or_by_the_newest_object() {
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
            assert_eq!(went_back(ResourceVersion(20), Some(&object("a", 15)), &present), want, "{case}");
        }
    }
}
