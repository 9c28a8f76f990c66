use std::sync::Arc;

use flyball_cache::{Change, Origin, Store};

use super::world::{deployment, pod, set};
use crate::deployment::triggers::{pod_changed, set_changed};

#[test]
fn a_set_syncs_its_deployment_and_an_orphan_every_deployment_that_could_adopt_it() {
    #[rustfmt::skip]
    let table: [(&str, &str, &str, &[&str]); 7] = [
        // case                         before               after                     synced
        ("made",                        "",                  "a=1",                    &["web"]),
        ("changed",                     "a=1",               "a=1/1",                  &["web"]),
        ("gone",                        "a=1",               "",                       &["web"]),
        ("a new orphan",                "",                  "a=1,orphan",             &["twin", "web"]),
        ("an orphan with other pods",   "a=1,orphan",        "a=1/1,orphan",           &[]),
        ("an orphan that is going",     "",                  "a=1,orphan,deleting",    &[]),
        ("let go",                      "a=1",               "a=1,orphan",             &["twin", "web", "web"]),
    ];
    let twin = || {
        let mut twin = deployment("");
        (twin.metadata.name, twin.metadata.uid) = ("twin".into(), "uid-twin".into());
        twin
    };
    let deployments = Store::from_iter([deployment(""), twin()]);
    for (case, before, after, want) in table {
        let present = |text: &str| (!text.is_empty()).then(|| Arc::new(set(text, 5)));
        let (old, new) = (present(before), present(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let mut synced: Vec<_> =
            set_changed(&change, &deployments).iter().map(|key| key.name.to_string()).collect();
        synced.sort();
        assert_eq!(synced, want, "{case}");
    }
}

#[test]
fn only_recreate_waits_for_pods_to_stop() {
    #[rustfmt::skip]
    let table = [
        // case                     strategy     before        after            synced
        ("gone",                    "recreate",  "a:Running",  "",              true),
        ("ended",                   "recreate",  "a:Running",  "a:Succeeded",   true),
        ("changed",                 "recreate",  "a:Pending",  "a:Running",     false),
        ("ended before",            "recreate",  "a:Failed",   "",              false),
        ("made",                    "recreate",  "",           "a:Running",     false),
        ("of another set",          "recreate",  "b:Running",  "",              false),
        ("step by step",            "",          "a:Running",  "",              false),
    ];
    for (case, strategy, before, after, want) in table {
        let (sets, deployments) =
            (Store::from_iter([set("a=1", 5)]), Store::from_iter([deployment(strategy)]));
        let present = |text: &str| (!text.is_empty()).then(|| pod(text));
        let (old, new) = (present(before), present(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        assert_eq!(pod_changed(&change, &sets, &deployments).is_some(), want, "{case}");
    }
}
