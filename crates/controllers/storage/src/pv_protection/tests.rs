use flyball_api::PersistentVolume;
use serde_json::json;

use super::plan::plan;

#[test]
fn a_volume_keeps_its_finalizer_while_it_is_bound() {
    let release = "update PersistentVolume v: no claim is bound to it";
    #[rustfmt::skip]
    let table = [
        // case                  finalizer  deleting  phase        plan
        ("without finalizer",    false,     false,    "Available", "update PersistentVolume v: claims may be bound to it"),
        ("protected",            true,      false,    "Bound",     ""),
        ("deleted while bound",  true,      true,     "Bound",     "waiting for PersistentVolume/v to be bound to no claim"),
        ("deleted",              true,      true,     "Released",  release),
        ("deleted before",       false,     true,     "Bound",     ""),
    ];
    for (case, has_finalizer, is_deleting, phase, want) in table {
        let mut volume: PersistentVolume =
            serde_json::from_value(json!({"metadata": {"name": "v"}, "status": {"phase": phase}})).unwrap();
        if has_finalizer {
            volume.metadata.finalizers = ["kubernetes.io/pv-protection".into()].into();
        }
        volume.metadata.deletion_timestamp = is_deleting.then_some(flyball_api::Timestamp::UNIX_EPOCH);
        assert_eq!(plan(&volume).to_string(), want, "{case}");
    }
}
