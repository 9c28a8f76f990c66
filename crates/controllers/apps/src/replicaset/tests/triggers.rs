use flyball_cache::{Change, Origin, Store};
use serde_json::json;

use super::world::{pod, set};
use crate::replicaset::triggers::pod_changed;

/// The sets to sync after a change of a pod, by name.
fn synced(old: &str, new: &str) -> Vec<String> {
    let sets = ["web", "twin"].into_iter().map(|name| {
        let mut set = set(json!({}), json!({}));
        set.metadata.name = name.into();
        set.metadata.uid = format!("uid-{name}").as_str().into();
        set
    });
    let sets = Store::from_iter(sets);
    let present = |text: &str| (!text.is_empty()).then(|| pod(text));
    let (old, new) = (present(old), present(new));
    let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
    let mut names: Vec<_> = pod_changed(&change, &sets).iter().map(|key| key.name.to_string()).collect();
    names.sort();
    names
}

#[test]
fn a_pod_syncs_its_set_and_an_orphan_every_set_that_could_adopt_it() {
    #[rustfmt::skip]
    let table: [(&str, &str, &str, &[&str]); 12] = [
        // case                                   before                after                      synced
        ("made by a set",                         "",                   "a",                       &["web"]),
        ("changed",                               "a",                  "a:ready",                 &["web"]),
        ("gone",                                  "a",                  "",                        &["web"]),
        ("of an unknown set",                     "",                   "a:owner=uid-other",       &[]),
        ("by a reference of an old group",        "",                   "a:group=extensions",      &["web"]),
        ("handed over",                           "a",                  "a:owner=uid-twin",        &["twin", "web"]),
        ("a new orphan that both could adopt",    "",                   "a:orphan",                &["twin", "web"]),
        ("an orphan that no set matches",         "",                   "a:orphan,label=db",       &[]),
        ("an orphan that only became ready",      "a:orphan",           "a:orphan,ready",          &[]),
        ("an orphan that was relabelled",         "a:orphan,label=db",  "a:orphan",                &["twin", "web"]),
        ("an orphan that is dying",               "",                   "a:orphan,terminating",    &[]),
        ("let go by its set",                     "a",                  "a:orphan,label=db",       &["web"]),
    ];
    for (case, before, after, want) in table {
        assert_eq!(synced(before, after), want, "{case}");
    }
}
