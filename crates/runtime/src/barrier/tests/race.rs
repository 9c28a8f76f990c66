//! A cache that changes while it is looked at.

use futures::future::BoxFuture;

use super::*;

/// Every look at it is followed by an event, which is the next version of its only object.
struct Moving(AtomicUsize);

impl Moving {
    fn look(&self) -> ResourceVersion {
        ResourceVersion(self.0.fetch_add(1, Ordering::Relaxed) as u64)
    }
}

impl Progress for Moving {
    fn version_reached(&self) -> ResourceVersion {
        self.look()
    }

    fn holds(&self, _: &Key) -> Option<(Uid, bool, ResourceVersion)> {
        Some((Uid::from("uid-1"), false, self.look()))
    }

    fn reached(&self, _: ResourceVersion) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn next_list(&self) -> u64 {
        1
    }

    fn has_listed(&self, _: u64) -> bool {
        false
    }

    fn listed(&self, _: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn era(&self) -> u64 {
        0
    }

    fn wrote(&self, _: ResourceVersion) {}

    fn report_restore(&self, _: u64) {}

    fn refresh(&self) {}

    fn request_bookmark(&self) {}
}

#[test]
fn an_event_between_two_looks_at_a_cache_is_no_sign_of_a_restore() {
    let (cache, key) = (Moving(AtomicUsize::new(5)), Key::new("ns", "t"));
    let before = Before::of(&cache, Some(&key));
    // A patch that changes nothing returns a version that the object has had since the last look.
    for version in 6..=cache.look().0 {
        assert!(!before.is_contradicted_by(ResourceVersion(version)), "version {version}");
    }
}
