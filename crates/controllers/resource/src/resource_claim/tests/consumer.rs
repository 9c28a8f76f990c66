use flyball_api::pod::Pod;
use flyball_api::{OwnerReference, PodGroup};
use serde_json::json;

use super::pod;
use crate::resource_claim::consumer::{Found, Kind, Use, had_ended, is_owner_done};

#[test]
fn a_consumer_uses_its_claim_until_it_has_ended_or_is_known_to_be_gone() {
    let (runs, ended, deleted) =
        (pod("", "", "running"), pod("", "", "running ended"), pod("", "", "deleting"));
    let group = json!({"metadata": {"namespace": "ns", "name": "g", "uid": "uid-app"}});
    let group: PodGroup = serde_json::from_value(group).unwrap();
    #[rustfmt::skip]
    let table = [
        // case                            uid        what is found               use
        ("it runs",                        "uid-app", Found::Pod(Some(&runs)),    Use::Yes),
        ("it has ended",                   "uid-app", Found::Pod(Some(&ended)),   Use::No),
        ("it is deleted before it ran",    "uid-app", Found::Pod(Some(&deleted)), Use::No),
        ("another pod has its name",       "uid-old", Found::Pod(Some(&runs)),    Use::No),
        ("it may be new",                  "uid-app", Found::Pod(None),           Use::IfItExists(Kind::Pod)),
        ("a cache has shown its deletion", "uid-app", Found::Deleted,             Use::No),
        ("a group",                        "uid-app", Found::Group(Some(&group)), Use::Yes),
        ("another group has its name",     "uid-old", Found::Group(Some(&group)), Use::No),
        ("a group that may be new",        "uid-app", Found::Group(None),         Use::IfItExists(Kind::Group)),
        ("a kind that is not watched",     "uid-app", Found::Unwatched,           Use::Yes),
    ];
    for (case, uid, found, want) in table {
        assert_eq!(Use::of(&uid.into(), found), want, "{case}");
    }
}

#[test]
fn the_owner_of_a_claim_is_done_when_its_pod_has_ended() {
    let (new, runs, ended) = (pod("", "", ""), pod("", "", "running"), pod("", "", "running ended"));
    let owner = |uid: &str| OwnerReference { uid: uid.into(), ..OwnerReference::default() };
    #[rustfmt::skip]
    let table: [(&str, &str, Option<&Pod>, bool, bool); 6] = [
        // case                         uid        in the cache   had ended  done
        ("it runs",                     "uid-app", Some(&runs),   false,     false),
        ("it has ended",                "uid-app", Some(&ended),  false,     true),
        ("another pod has its name",    "uid-old", Some(&runs),   false,     true),
        ("it may be new",               "uid-app", None,          false,     false),
        ("it is gone, and had ended",   "uid-app", None,          true,      true),
        ("it is back after a restore",  "uid-app", Some(&runs),   true,      false),
    ];
    for (case, uid, cached, had_ended, want) in table {
        assert_eq!(is_owner_done(&owner(uid), cached, had_ended), want, "{case}");
    }
    assert!(had_ended(&new) && had_ended(&ended), "a pod without a node has never run");
    assert!(!had_ended(&runs));
}
