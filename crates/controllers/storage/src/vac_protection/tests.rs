//! A table of who refers to which class.

use std::sync::Arc;

use flyball_api::PersistentVolumeClaim;
use flyball_cache::{Change, Origin};
use serde_json::json;

use super::triggers::{given_up, of_claim};

/// A claim in words: the class it wants, the one it has, the one it is being moved to; `-` for none.
fn claim(words: &str) -> Option<Arc<PersistentVolumeClaim>> {
    let words: Vec<_> = words.split_whitespace().map(|word| (word != "-").then_some(word)).collect();
    let [wanted, held, target] = words[..] else { return None };
    let claim = json!({
        "spec": {"volumeAttributesClassName": wanted},
        "status": {
            "currentVolumeAttributesClassName": held,
            "modifyVolumeStatus": target.map(|name| json!({"targetVolumeAttributesClassName": name})),
        },
    });
    Some(Arc::new(serde_json::from_value(claim).unwrap()))
}

#[test]
fn classes_are_looked_at_when_a_claim_gives_them_up() {
    #[rustfmt::skip]
    let table = [
        // case                        before     after      classes
        ("new",                        "",        "a - -",   ""),
        ("the same",                   "a a -",   "a a -",   ""),
        ("another one is wanted",      "a a -",   "b a b",   ""),
        ("the change is done",         "b a b",   "b b -",   "a"),
        ("the change is taken back",   "b a b",   "a a -",   "b b"),
        ("gone",                       "a b c",   "",        "a b c"),
        ("an empty name is none",      "a - -",   "- - -",   "a"),
    ];
    for (case, before, after, want) in table {
        let (old, new) = (claim(before), claim(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let keys: Vec<_> = given_up(&change, of_claim).iter().map(ToString::to_string).collect();
        assert_eq!(keys.join(" "), want, "{case}");
    }
}
