//! What volumes and claims look like once they are bound, and no longer.

use flyball_api::Quantity;

use super::world::{claim, volume};
use crate::binder::edit::{freed, given, status_with, status_without, taken, with_provisioner};
use crate::names::{BETA_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONER};

#[test]
fn a_volume_is_taken_once_and_says_who_chose_it() {
    #[rustfmt::skip]
    let table = [
        // case                       volume            changes  marked
        ("of no claim",               "a",              true,    true),
        ("promised by a user",        "a for=c",        true,    false),
        ("bound by a user",           "a of=c",         false,   false),
        ("bound by us",               "a of=c ours",    false,   true),
    ];
    for (case, words, changes, marked) in table {
        let (before, claim) = (volume(words), claim("c"));
        let after = taken(&before, &claim).unwrap();
        assert_eq!(after.is_some(), changes, "{case}");
        let after = after.unwrap_or(before);
        assert_eq!(after.metadata.annotations.contains_key(BOUND_BY_CONTROLLER), marked, "{case}");
        assert_eq!(after.spec.claim_ref.as_ref().unwrap().uid, claim.metadata.uid, "{case}");
        assert!(taken(&after, &claim).unwrap().is_none(), "{case}: once");
    }
}

#[test]
fn a_freed_volume_keeps_only_what_a_user_promised() {
    let ours = freed(&volume("a of=c ours")).unwrap();
    assert!(ours.spec.claim_ref.is_none() && ours.metadata.annotations.is_empty());
    let promised = freed(&volume("a of=c")).unwrap();
    let reference = promised.spec.claim_ref.clone().unwrap();
    assert!(reference.uid.is_empty() && reference.name == "c");
}

#[test]
fn a_claim_is_given_a_volume_once() {
    let volume = volume("a");
    let after = given(&claim("c"), &volume).unwrap().unwrap();
    assert_eq!(after.spec.volume_name, "a");
    assert!(
        [BIND_COMPLETED, BOUND_BY_CONTROLLER].iter().all(|key| after.metadata.annotations.contains_key(key))
    );
    assert!(given(&after, &volume).unwrap().is_none());
    let named = given(&claim("c names=a"), &volume).unwrap().unwrap();
    assert!(!named.metadata.annotations.contains_key(BOUND_BY_CONTROLLER), "its user chose");
}

#[test]
fn the_status_of_a_claim_takes_its_size_when_it_is_bound() {
    #[rustfmt::skip]
    let table = [
        // case                            claim                    volume               size
        ("it gets the volume's",           "c",                     "a 5Gi",             "5Gi"),
        ("not again",                      "c phase=Bound has=1Gi", "a 5Gi",             "1Gi"),
        ("its file system is smaller",     "c",                     "a 5Gi was=2Gi",     "2Gi"),
        ("an invalid annotation",  "c",                     "a 5Gi was=large",   "5Gi"),
        ("it comes back",                  "c phase=Lost",          "a 5Gi",             "5Gi"),
    ];
    for (case, words, of, want) in table {
        let status = status_with(&claim(words), &volume(of), true);
        assert_eq!(status.capacity.get("storage"), want.parse::<Quantity>().ok(), "{case}");
        assert_eq!((status.phase.as_str(), status.access_modes.len()), ("Bound", 1), "{case}");
    }
    let with = status_with(&claim("c attributes=x"), &volume("a attributes=x"), true);
    assert_eq!(with.current_volume_attributes_class_name.as_deref(), Some("x"));
    let gate_off = status_with(&claim("c attributes=x"), &volume("a attributes=x"), false);
    assert_eq!(gate_off.current_volume_attributes_class_name, None);
    let lost = status_without(&claim("c phase=Bound has=1Gi"), "Lost");
    assert!(lost.capacity.is_empty() && lost.access_modes.is_empty() && lost.phase == "Lost");
}

#[test]
fn a_provisioner_is_asked_under_both_names() {
    let after = with_provisioner(&claim("c"), "ebs.csi.aws.com").unwrap();
    let annotation = |key| after.metadata.annotations.get(key);
    assert_eq!(
        (annotation(PROVISIONER), annotation(BETA_PROVISIONER)),
        (Some("ebs.csi.aws.com"), Some("ebs.csi.aws.com"))
    );
    assert_eq!(annotation(MIGRATED_TO), None, "the name is the driver's already");
    assert!(with_provisioner(&after, "ebs.csi.aws.com").is_none());
}
