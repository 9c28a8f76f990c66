use proptest::prelude::*;

use super::claim;
use crate::claim::upkeep::{FINALIZER, Upkeep, upkeep};

#[test]
fn devices_are_given_back_with_the_last_user() {
    #[rustfmt::skip]
    let table = [
        // case                                     claim                                   users left  owner done  want
        ("in use",                                  "allocated protected user:a",           "a",        false,      ""),
        ("one of two is gone",                      "allocated protected user:a user:b",    "b",        false,      "for b, allocated"),
        ("all are gone",                            "allocated protected user:a user:b",    "",         false,      "for nobody; unprotect"),
        ("nobody protects it",                      "allocated user:a",                     "",         false,      "for nobody, allocated"),
        ("it was never used",                       "allocated protected",                  "",         false,      ""),
        ("and is to go",                            "allocated protected going",            "",         false,      "for nobody; unprotect"),
        ("without devices",                         "protected going",                      "",         false,      "unprotect"),
        ("not while it is used",                    "allocated protected going user:a",     "a",        false,      ""),
        ("the pod that it was made for has ended",  "allocated protected user:a",           "",         true,       "for nobody; unprotect; delete"),
        ("before it got any devices",               "",                                     "",         true,       "delete"),
        ("but somebody else uses it",               "allocated protected user:b",           "b",        true,       ""),
    ];
    for (case, traits, left, is_owner_done, want) in table {
        let claim = claim("c", traits);
        let users =
            claim.status.reserved_for.iter().filter(|user| left.split(' ').any(|name| user.name == name));
        let Upkeep { status, unprotect, delete } = upkeep(&claim, users.cloned().collect(), is_owner_done);
        let mut done = vec![];
        if let Some(status) = status {
            let names: Vec<_> = status.reserved_for.iter().map(|user| user.name.as_str()).collect();
            let names = if names.is_empty() { "nobody".to_owned() } else { names.join(" ") };
            done.push(format!("for {names}{}", if status.allocation.is_some() { ", allocated" } else { "" }));
        }
        done.extend(unprotect.then(|| "unprotect".to_owned()));
        done.extend(delete.then(|| "delete".to_owned()));
        assert_eq!(done.join("; "), want, "{case}");
    }
}

proptest! {
    /// Nobody who uses a claim loses it, and what was done is not done again.
    #[test]
    fn a_claim_in_use_keeps_its_devices(
        users in 0..4_usize, left in 0..4_usize, traits in prop::sample::subsequence(vec!["allocated", "protected", "going"], 0..=3),
        is_owner_done: bool,
    ) {
        let words: Vec<String> = (0..users).map(|n| format!("user:u{n}")).collect();
        let mut claim = claim("c", &format!("{} {}", traits.join(" "), words.join(" ")));
        let remaining: Vec<_> = claim.status.reserved_for.iter().take(left).cloned().collect();
        let todo = upkeep(&claim, remaining.clone(), is_owner_done);
        if !remaining.is_empty() {
            prop_assert!(!todo.delete);
            prop_assert!(!todo.unprotect || claim.status.allocation.is_none());
            prop_assert!(todo.status.as_ref().is_none_or(|new| new.allocation == claim.status.allocation));
        }
        if let Some(status) = todo.status {
            prop_assert!(status != claim.status);
            claim.status = status;
        }
        if todo.unprotect {
            prop_assert!(claim.status.allocation.is_none());
            claim.metadata.finalizers = claim.metadata.finalizers.iter().filter(|f| *f != FINALIZER).cloned().collect();
        }
        let again = upkeep(&claim, remaining, is_owner_done);
        prop_assert_eq!(again, Upkeep { status: None, unprotect: false, delete: todo.delete });
    }
}
