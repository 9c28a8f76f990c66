use flyball_api::stateful_set::StatefulSetStatus;
use serde_json::json;

use super::world::{claims, pods, set, view};
use crate::statefulset::status::{is_changed, status, write};

/// `replicas ready available current updated revision`.
fn said(set_words: &str, pod_words: &str, outdated: i32) -> String {
    let (set, pods, claims) = (set(set_words), pods(pod_words), claims(""));
    let said = status(&view(&set, &pods, &claims), outdated);
    let counts = [
        said.replicas,
        said.ready_replicas,
        said.available_replicas,
        said.current_replicas,
        said.updated_replicas,
    ];
    format!(
        "{} {}",
        counts.map(|count| count.to_string()).join(" "),
        said.current_revision.trim_start_matches("db-")
    )
}

#[test]
fn pods_are_counted_by_state_and_revision() {
    #[rustfmt::skip]
    let table = [
        // case                                 set             pods                         deleted  all ready available current updated, revision
        ("none",                                "3",            "",                          0, "0 0 0 0 0 old"),
        ("some",                                "3",            "0:old 1:unready",           0, "2 1 1 1 1 old"),
        ("ready for too short a time",          "3 min-ready=60", "0:old,ready=5 1:old",      0, "2 2 1 2 0 old"),
        ("going ones are of no revision",       "3",            "0:old 1:terminating",       0, "2 2 2 1 0 old"),
        ("not wanted any more, still there",    "1",            "0:old 1:old",               0, "2 2 2 2 0 old"),
        ("one deleted just now",                "3",            "0:old 1:old 2:old",         1, "3 3 3 2 0 old"),
        ("one of no known revision",            "1",            "0:broken",                  1, "1 1 1 0 0 old"),
        ("complete",                            "2",            "0 1",                       0, "2 2 2 2 2 new"),
        ("complete, but one is too many",       "2",            "0 1 2",                     0, "3 3 3 0 3 old"),
        ("complete, but one is unready",        "2",            "0 1:unready",               0, "2 1 1 0 2 old"),
        ("by hand it never completes",          "2 ondelete",   "0 1",                       0, "2 2 2 0 2 old"),
        ("none wanted is complete",             "0",            "",                          0, "0 0 0 0 0 new"),
        ("pending is not ready",                "1",            "0:pending",                 0, "1 0 0 0 1 old"),
        ("a set that goes counts all",          "1 deleting",   "0:old 9:old",               0, "2 2 2 2 0 old"),
    ];
    for (case, set, pods, outdated, want) in table {
        assert_eq!(said(set, pods, outdated), want, "{case}");
    }
}

#[test]
fn only_a_changed_status_is_written() {
    let (mut set, pods, claims) = (set("2"), pods("0 1"), claims(""));
    let fresh = status(&view(&set, &pods, &claims), 0);
    assert!(is_changed(&set, &fresh));
    let words = write(&set, &fresh).unwrap().to_string();
    assert_eq!(words, "update StatefulSet/status ns/db: 2 pods, 2 ready, 2 updated");
    set.status = fresh.clone();
    assert!(!is_changed(&set, &fresh));
    assert!(write(&set, &fresh).is_none());
    let more = StatefulSetStatus { collision_count: Some(7), ..fresh };
    assert!(!is_changed(&set, &more), "collisions alone");
    set.metadata.generation += 1;
    assert!(is_changed(&set, &status(&view(&set, &pods, &claims), 0)), "a new generation was seen");
    set.status.observed_generation = 99;
    assert!(!is_changed(&set, &status(&view(&set, &pods, &claims), 0)), "an older one is no change");
}

#[test]
fn conditions_of_other_controllers_are_removed_by_the_next_write_and_cause_none() {
    let (mut set, pods, claims) = (set("2"), pods(""), claims(""));
    let fresh = status(&view(&set, &pods, &claims), 0);
    let theirs = serde_json::from_value(json!([{"type": "Theirs", "status": "True"}])).unwrap();
    set.status = StatefulSetStatus { conditions: theirs, ..fresh };
    let later = status(&view(&set, &pods, &claims), 0);
    assert!(later.conditions.is_empty() && !is_changed(&set, &later));
}
