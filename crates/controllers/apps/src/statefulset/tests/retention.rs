use super::world::{claim, claims, pods, set, view};
use crate::statefulset::retention::ownership;

/// The owners after the check, as text, or `right`.
fn owners_after(policy: &str, owners: &str, wanted: bool) -> (String, bool) {
    // The set has one replica: ordinal zero is within it, ordinal one is not.
    let ordinal = if wanted { 0 } else { 1 };
    let set = set(&format!("1 claims {policy}"));
    let (pods, no_claims) = (pods(&ordinal.to_string()), claims(""));
    let view = view(&set, &pods, &no_claims);
    let ownership = ownership(
        &claim(&format!("{ordinal}:{owners}")),
        &set,
        &view.holder(ordinal, pods.first().map(|pod| &**pod)),
    );
    let words = ownership.correction.map_or("right".to_owned(), |references| {
        references
            .iter()
            .map(|reference| format!("{}/{}", reference.kind, reference.name))
            .collect::<Vec<_>>()
            .join(" ")
    });
    (words, ownership.is_contested)
}

#[test]
fn claims_have_the_owners_of_the_policy() {
    #[rustfmt::skip]
    let table = [
        // policy           owners        in use               scaled away
        ("",                "",           "right",             "right"),
        ("",                "set",        "",                  ""),
        ("",                "pod",        "",                  ""),
        ("deleted",         "",           "StatefulSet/db",    "StatefulSet/db"),
        ("deleted",         "set",        "right",             "right"),
        ("deleted",         "set,pod",    "StatefulSet/db",    "StatefulSet/db"),
        ("scaled",          "",           "right",             "Pod/db-1"),
        ("scaled",          "set",        "",                  "Pod/db-1"),
        ("scaled",          "pod",        "",                  "right"),
        ("scaled deleted",  "",           "StatefulSet/db",    "Pod/db-1"),
        ("scaled deleted",  "set",        "right",             "Pod/db-1"),
        ("scaled deleted",  "pod",        "StatefulSet/db",    "right"),
        ("deleted",         "loose-set",  "StatefulSet/db",    "StatefulSet/db"),
        ("",                "loose-set",  "",                  ""),
        ("scaled deleted",  "stale-set",  "right",             "right"),
        ("scaled deleted",  "stale-pod",  "right",             "right"),
    ];
    for (policy, owners, in_use, scaled_away) in table {
        assert_eq!(owners_after(policy, owners, true).0, in_use, "{policy:?} with {owners:?}, in use");
        assert_eq!(
            owners_after(policy, owners, false).0,
            scaled_away,
            "{policy:?} with {owners:?}, scaled away"
        );
    }
}

#[test]
fn another_controller_is_kept_and_reported() {
    #[rustfmt::skip]
    let table = [
        // policy      owners        owners afterwards    contested
        ("",           "other",      "right",             false),
        ("deleted",    "other",      "right",             true),
        ("deleted",    "other,set",  "Backup/b",          true),
        ("",           "other,set",  "Backup/b",          false),
        ("deleted",    "stale-set",  "right",             true),
    ];
    for (policy, owners, want, contested) in table {
        assert_eq!(
            owners_after(policy, owners, true),
            (want.to_owned(), contested),
            "{policy:?} with {owners:?}"
        );
    }
}
