use flyball_api::StatefulSet;
use flyball_cache::{Change, Origin, Store};

use super::world::{claim, pod, set};
use crate::statefulset::triggers::{claim_gone, pod_changed};

fn sets() -> Store<StatefulSet> {
    Store::from_iter([set("1 claims")])
}

#[test]
fn a_pod_syncs_its_set() {
    let (before, after) = (pod("0:unready"), pod("0"));
    let change = Change { old: Some(&before), new: Some(&after), origin: Origin::Watch };
    assert_eq!(pod_changed(&change, &sets()).len(), 1);
}

#[test]
fn a_deleted_claim_syncs_the_set_of_its_name() {
    #[rustfmt::skip]
    let table = [
        ("data-db-0",       1),
        ("data-db-12",      1),
        ("data-other-0",    0),
        ("logs-db-0",       0),
        ("db-0",            0),
        ("data-db",         0),
    ];
    for (name, want) in table {
        let mut gone = (*claim("0")).clone();
        gone.metadata.name = name.into();
        let gone = std::sync::Arc::new(gone);
        let change = Change { old: Some(&gone), new: None, origin: Origin::Watch };
        assert_eq!(claim_gone(&change, &sets()).len(), want, "{name}");
        let still_there = Change { old: Some(&gone), new: Some(&gone), origin: Origin::Watch };
        assert!(claim_gone(&still_there, &sets()).is_empty());
    }
}
