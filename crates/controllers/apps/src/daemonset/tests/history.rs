use std::sync::Arc;

use flyball_api::{ControllerRevision, Labels};

use super::world::{pods, set};
use crate::daemonset::history::obsolete;

#[test]
fn history_keeps_what_pods_run_and_the_latest_of_the_rest() {
    let revision = |hash: &str| {
        let mut revision = ControllerRevision::default();
        revision.metadata.name = hash.into();
        revision.metadata.labels = Labels::from_iter([("controller-revision-hash", hash)]);
        Arc::new(revision)
    };
    let old_ones = ["a", "old", "b", "c"].map(revision);
    let gone = |limit: i32| {
        let mut set = set("");
        let mut spec = set.spec.raw().to_value();
        spec["revisionHistoryLimit"] = limit.into();
        set.spec = serde_json::from_value(spec).unwrap();
        let pods = pods("x@n1:old y@n2");
        obsolete(&set, &old_ones, &pods)
            .iter()
            .map(|one| one.metadata.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(gone(10), "");
    assert_eq!(gone(4), "");
    assert_eq!(gone(3), "a");
    assert_eq!(gone(2), "a b");
    assert_eq!(gone(0), "a b c");
}
