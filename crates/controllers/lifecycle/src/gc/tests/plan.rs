use flyball_api::{ObjectMeta, OwnerReference, ResourceVersion, Timestamp};
use flyball_client::Propagation;

use crate::gc::plan::{Dependents, Standing, Verdict, judge, version_to_delete};

/// An object with one owner for each letter: `s`olid, `a`bsent, `w`aiting, `o`utlived; with these finalizers, of which
/// `deleting` means that it is being deleted.
fn verdict(owners: &str, finalizers: &str, dependents: &str) -> String {
    let standings: Vec<Standing> = owners
        .chars()
        .map(|owner| match owner {
            's' => Standing::Solid,
            'a' => Standing::Absent,
            'o' => Standing::Outlived,
            _ => Standing::Waiting,
        })
        .collect();
    let reference = |(n, owner)| OwnerReference {
        uid: format!("{owner}{n}").as_str().into(),
        ..OwnerReference::default()
    };
    let object = ObjectMeta {
        deletion_timestamp: finalizers.contains("deleting").then_some(Timestamp::UNIX_EPOCH),
        owner_references: owners.chars().enumerate().map(reference).collect(),
        finalizers: finalizers.split_whitespace().map(Into::into).collect(),
        ..ObjectMeta::default()
    };
    let dependents = Dependents { any: !dependents.is_empty(), any_waiting: dependents == "waiting" };
    match judge(&object, &standings, dependents) {
        Verdict::Keep => "keep".to_owned(),
        Verdict::Release(owners) => {
            let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
            format!("release {}", owners.join(" "))
        }
        Verdict::Delete { propagation, unblock_owners } => {
            let how = match propagation {
                Propagation::Orphan => "orphan",
                Propagation::Background => "background",
                Propagation::Foreground => "foreground",
            };
            format!("{}delete {how}", if unblock_owners { "unblock, " } else { "" })
        }
    }
}

#[test]
fn owners_decide() {
    #[rustfmt::skip]
    let table = [
        // case                                        owners  finalizers                  dependents  verdict
        ("who has no owner is not ours",                  "",   "",                         "",         "keep"),
        ("a living owner keeps",                          "s",  "",                         "",         "keep"),
        ("one living owner of two keeps",                 "sa", "",                         "",         "release a1"),
        ("and lets a waiting one go",                     "ws", "",                         "some",     "release w0"),
        ("all others are released at once",               "asw", "",                        "",         "release a0 w2"),
        ("who goes already needs no second word",         "a",  "deleting",                 "",         "keep"),
        ("nor to be freed",                               "sa", "deleting",                 "some",     "keep"),
        ("no owner left",                                 "a",  "",                         "",         "delete background"),
        ("dependents do not matter then",                 "a",  "",                         "some",     "delete background"),
        ("who asked for orphans gets them",               "a",  "orphan",                   "some",     "delete orphan"),
        ("orphans come first",                            "a",  "foregroundDeletion orphan", "",        "delete orphan"),
        ("who asked for the foreground gets it",          "aa", "foregroundDeletion",       "",         "delete foreground"),
        ("who was to outlive its owner does",             "o",  "",                         "some",     "release o0"),
        ("and is judged by the others after that",        "oaw", "",                        "some",     "release o0"),
        ("a waiting owner, nobody below",                 "w",  "",                         "",         "delete background"),
        ("a waiting owner spreads downwards",             "w",  "",                         "some",     "delete foreground"),
        ("absent and waiting",                            "aw", "",                         "some",     "delete foreground"),
        ("what may be a circle is opened",                "w",  "",                         "waiting",  "unblock, delete foreground"),
    ];
    for (case, owners, finalizers, dependents, want) in table {
        assert_eq!(verdict(owners, finalizers, dependents), want, "{case}");
    }
}

#[test]
fn what_changes_all_the_time_is_deleted_in_any_version() {
    let seen = |text: &str| {
        let (version, owners) = text.split_once(' ').unwrap();
        let reference = |name: char| OwnerReference {
            uid: name.to_string().as_str().into(),
            ..OwnerReference::default()
        };
        ObjectMeta {
            resource_version: ResourceVersion(version.parse().unwrap()),
            owner_references: owners.chars().map(reference).collect(),
            ..ObjectMeta::default()
        }
    };
    #[rustfmt::skip]
    let table = [
        // case                                   refused      seen     deleted in
        ("the first time",                         "",          "7 ab",  Some(7)),
        ("changed, but not its owners",            "5 ab",      "7 ab",  None),
        ("one owner more",                         "5 a",       "7 ab",  Some(7)),
        ("one owner less",                         "5 ab",      "7 a",   Some(7)),
        ("another owner",                          "5 a",       "7 b",   Some(7)),
        ("their order",                            "5 ab",      "7 ba",  Some(7)),
        ("not changed: refused for other reasons", "7 ab",      "7 ab",  Some(7)),
    ];
    for (case, refused, now, want) in table {
        let refused = (!refused.is_empty()).then(|| seen(refused));
        assert_eq!(version_to_delete(refused.as_ref(), &seen(now)), want.map(ResourceVersion), "{case}");
    }
}
