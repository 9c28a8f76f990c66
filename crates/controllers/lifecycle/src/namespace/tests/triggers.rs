use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Namespace, Timestamp};
use flyball_cache::{Change, Origin};

use crate::namespace::triggers::namespace_changed;

#[test]
fn only_namespaces_that_are_being_deleted_are_reconciled_after_a_delay() {
    let active = Arc::new(Namespace::default());
    let mut deleting = Namespace::default();
    deleting.metadata.name = "n".into();
    deleting.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    let deleting = Arc::new(deleting);
    let after = Some((Key::cluster("n"), Duration::from_secs(5)));
    #[rustfmt::skip]
    let table = [
        ("created",                   None,          Some(&active), None),
        ("deleted",                   Some(&active), Some(&deleting),  after.clone()),
        ("in the initial list",       None,          Some(&deleting),  after),
        ("gone",                      Some(&deleting),  None,          None),
    ];
    for (case, old, new, want) in table {
        assert_eq!(namespace_changed(&Change { old, new, origin: Origin::Watch }), want, "{case}");
    }
}
