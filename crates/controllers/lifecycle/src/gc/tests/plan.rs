use flyball_api::{ObjectMeta, OwnerReference, Timestamp};
use flyball_client::Propagation;

use crate::gc::plan::{Dependents, Standing, Verdict, judge};

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
