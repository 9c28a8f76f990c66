use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Namespace, Timestamp};
use flyball_cache::{Change, Origin};

use crate::namespace::triggers::namespace_changed;

#[test]
fn only_namespaces_that_go_are_looked_at_and_not_at_once() {
    let living = Arc::new(Namespace::default());
    let mut going = Namespace::default();
    going.metadata.name = "n".into();
    going.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    let going = Arc::new(going);
    let after = Some((Key::cluster("n"), Duration::from_secs(5)));
    #[rustfmt::skip]
    let table = [
        ("created",                   None,          Some(&living), None),
        ("its deletion is asked for", Some(&living), Some(&going),  after.clone()),
        ("found at the start",        None,          Some(&going),  after),
        ("gone",                      Some(&going),  None,          None),
    ];
    for (case, old, new, want) in table {
        assert_eq!(namespace_changed(&Change { old, new, origin: Origin::Watch }), want, "{case}");
    }
}
