//! Tables for the references to classes and for the finalizer.

use std::sync::Arc;

use flyball_api::{PersistentVolumeClaim, VolumeAttributesClass};
use flyball_cache::{Change, Origin};
use serde_json::json;

use super::plan::{View, plan};
use super::triggers::{of_claim, released};

/// A claim in words: the class it requests, the one it has, the one it is being moved to; `-` for none.
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
fn a_class_is_synced_when_a_claim_no_longer_refers_to_it() {
    #[rustfmt::skip]
    let table = [
        // case                        before     after      classes
        ("new",                        "",        "a - -",   ""),
        ("the same",                   "a a -",   "a a -",   ""),
        ("another one is requested",   "a a -",   "b a b",   ""),
        ("the change is done",         "b a b",   "b b -",   "a"),
        ("the change is taken back",   "b a b",   "a a -",   "b b"),
        ("gone",                       "a b c",   "",        "a b c"),
        ("an empty name is none",      "a - -",   "- - -",   "a"),
    ];
    for (case, before, after, want) in table {
        let (old, new) = (claim(before), claim(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let keys: Vec<_> = released(&change, of_claim).iter().map(ToString::to_string).collect();
        assert_eq!(keys.join(" "), want, "{case}");
    }
}

#[test]
fn a_class_keeps_its_finalizer_while_it_is_used() {
    let mut class: VolumeAttributesClass =
        serde_json::from_value(json!({"metadata": {"name": "fast"}, "driverName": "d"})).unwrap();
    let planned = |class: &VolumeAttributesClass, users| plan(&View { class, users }).to_string();
    assert_eq!(planned(&class, 1), "update VolumeAttributesClass fast: claims may refer to it");
    class.metadata.finalizers = ["kubernetes.io/vac-protection".into()].into();
    assert_eq!(planned(&class, 1), "");
    class.metadata.deletion_timestamp = Some(flyball_api::Timestamp::UNIX_EPOCH);
    assert_eq!(
        planned(&class, 2),
        "waiting for VolumeAttributesClass/fast to be released by 2 volumes and claims"
    );
    assert_eq!(planned(&class, 0), "update VolumeAttributesClass fast: nothing refers to it");
}
