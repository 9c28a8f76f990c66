use proptest::prelude::*;

use super::claim;
use crate::resource_claim::invariants::check_release;
use crate::resource_claim::release::{FINALIZER, Release, after, plan, release};
use flyball_runtime::Plan;

#[test]
fn devices_are_deallocated_with_the_last_consumer() {
    #[rustfmt::skip]
    let table = [
        // case                                     ResourceClaim                           users left  owner done  want
        ("in use",                                  "allocated protected user:a",           "a",        false,      ""),
        ("one of two is gone",                      "allocated protected user:a user:b",    "b",        false,      "for b, allocated"),
        ("all are gone",                            "allocated protected user:a user:b",    "",         false,      "for none; finalizer"),
        ("without the finalizer",                    "allocated user:a",                     "",         false,      "for none, allocated"),
        ("it was never used",                       "allocated protected",                  "",         false,      ""),
        ("it is deleted",                          "allocated protected deleting",            "",         false,      "for none; finalizer"),
        ("without devices",                         "protected deleting",                      "",         false,      "finalizer"),
        ("not while it is used",                    "allocated protected deleting user:a",     "a",        false,      ""),
        ("its pod has ended",                        "allocated protected user:a",           "",         true,       "for none; finalizer; delete"),
        ("before it was allocated",                 "",                                     "",         true,       "delete"),
        ("another pod uses it",                     "allocated protected user:b",           "b",        true,       ""),
    ];
    for (case, traits, left, is_owner_done, want) in table {
        let claim = claim("c", traits);
        let users =
            claim.status.reserved_for.iter().filter(|user| left.split(' ').any(|name| user.name == name));
        let Release { status, remove_finalizer, delete } =
            release(&claim, users.cloned().collect(), is_owner_done);
        let mut done = vec![];
        if let Some(status) = status {
            let names: Vec<_> = status.reserved_for.iter().map(|user| user.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
            done.push(format!("for {names}{}", if status.allocation.is_some() { ", allocated" } else { "" }));
        }
        done.extend(remove_finalizer.then(|| "finalizer".to_owned()));
        done.extend(delete.then(|| "delete".to_owned()));
        assert_eq!(done.join("; "), want, "{case}");
    }
}

#[test]
fn the_finalizer_is_removed_over_the_metadata_that_the_status_update_returned() {
    let claim = claim("c", "of:a allocated protected user:a");
    let everything = release(&claim, vec![], true);
    assert_eq!(
        plan(&claim, &everything).to_string(),
        "update ResourceClaim/status ns/c: its consumers are gone"
    );
    let mut written = claim.metadata.clone();
    written.resource_version = flyball_api::ResourceVersion(7);
    let rest = Plan::of(after(&claim, &everything, Some(&written)));
    let want = "\
update ResourceClaim ns/c: its devices are deallocated
delete ResourceClaim ns/c: the pod that it was generated for has ended";
    assert_eq!(rest.to_string(), want);
    let body = rest.writes()[0].body().unwrap();
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(body["metadata"]["finalizers"], serde_json::json!(["other"]));
    let nothing = release(&claim, claim.status.reserved_for.clone(), false);
    let waiting = "waiting for Pod/ns/a to end: the ResourceClaim is reserved for it";
    assert_eq!(plan(&claim, &nothing).to_string(), waiting);
    assert_eq!(Plan::<()>::of(after(&claim, &nothing, None)).to_string(), "");
}

#[test]
fn the_invariants_tell_right_releases_from_wrong_ones() {
    let claim = claim("c", "allocated protected user:a user:b");
    let users = &claim.status.reserved_for;
    let release = |left: usize| release(&claim, users[..left].to_vec(), true);
    #[rustfmt::skip]
    let table = [
        // case                       remain       release                                                       broken
        ("all are gone",              &users[..0], release(0),                                                   ""),
        ("one is left",               &users[..1], release(1),                                                   ""),
        ("one is forgotten",          &users[..1], release(2),                                                   "and no others"),
        ("one in use is released",    &users[..1], release(0),                                                   "stay allocated"),
        ("one in use is deleted",     &users[..1], Release { delete: true, ..release(1) },                       "in use is not deleted"),
        ("an allocated one loses it", &users[..1], Release { remove_finalizer: true, ..release(1) },             "the finalizer stays"),
    ];
    for (case, remaining, release, want) in table {
        let broken = check_release(&claim, remaining, &release).err().unwrap_or_default();
        assert!(broken.contains(want) && broken.is_empty() == want.is_empty(), "{case}: {broken}");
    }
}

proptest! {
    /// A consumer never loses its devices, and what was done is not done again.
    #[test]
    fn a_resource_claim_in_use_keeps_its_devices(
        users in 0..4_usize, left in 0..4_usize, traits in prop::sample::subsequence(vec!["allocated", "protected", "deleting"], 0..=3),
        is_owner_done: bool,
    ) {
        let words: Vec<String> = (0..users).map(|n| format!("user:u{n}")).collect();
        let mut claim = claim("c", &format!("{} {}", traits.join(" "), words.join(" ")));
        let remaining: Vec<_> = claim.status.reserved_for.iter().take(left).cloned().collect();
        let todo = release(&claim, remaining.clone(), is_owner_done);
        prop_assert_eq!(check_release(&claim, &remaining, &todo), Ok(()));
        if !remaining.is_empty() {
            prop_assert!(!todo.delete);
            prop_assert!(!todo.remove_finalizer || claim.status.allocation.is_none());
            prop_assert!(todo.status.as_ref().is_none_or(|new| new.allocation == claim.status.allocation));
        }
        if let Some(status) = todo.status {
            prop_assert!(status != claim.status);
            claim.status = status;
        }
        if todo.remove_finalizer {
            prop_assert!(claim.status.allocation.is_none());
            claim.metadata.finalizers = claim.metadata.finalizers.iter().filter(|f| *f != FINALIZER).cloned().collect();
        }
        let again = release(&claim, remaining, is_owner_done);
        prop_assert_eq!(again, Release { status: None, remove_finalizer: false, delete: todo.delete });
    }
}
