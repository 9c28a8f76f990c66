use super::super::packing::{Template, pack};
use super::world::{described, desired, slice, slices};

/// Three endpoints fit into a slice.
#[test]
fn as_few_slices_as_possible_are_written() {
    #[rustfmt::skip]
    let table = [
        // case                                  existing                   desired        plan
        ("up to date",                           "x: a b",                  "a b",         ""),
        ("nothing at all",                       "",                        "",            ""),
        ("first ones",                           "",                        "a b",         "create a b"),
        ("more than fit",                        "",                        "a b c d",     "create a b c; create d"),
        ("one is removed",                       "x: a b",                  "a",           "update x: a"),
        ("all of a slice are removed",           "x: a b; y: c",            "c",           "delete x"),
        ("readiness is changed in place",        "x: a b",                  "a! b",        "update x: a! b"),
        ("a slice that changes anyway is used",  "x: a b; y: c d",          "a c d e",     "update x: a e"),
        ("the fullest of them first",            "x: a b z; y: c d e",      "a c d f",     "update y: c d f; update x: a"),
        ("else the one that is filled best",     "x: a; y: b c",            "a b c d",     "update y: b c d"),
        ("two more fit only into the other",     "x: a; y: b c",            "a b c d e",   "update x: a d e"),
        ("full ones are left alone",             "x: a b c",                "a b c d",     "create d"),
        ("a whole new slice is not squeezed in", "x: a",                    "a b c d",     "create b c d"),
        ("too many for any one slice",           "x: a b; y: c d",          "a b c d e f", "create e f"),
        ("one that is published twice",          "x: a; y: a",              "a",           "delete y"),
        ("replaced in place",                    "x: a b c",                "a b d",       "update x: a b d"),
    ];
    for (case, existing, wanted, want) in table {
        let existing = slices(existing);
        let existing: Vec<_> = existing.iter().collect();
        let empty = slice("");
        let changes = pack(&existing, desired(wanted), &Template { empty: &empty, capacity: 3 });
        assert_eq!(described(&changes), want, "{case}");
    }
}

#[test]
fn a_change_of_labels_writes_every_slice_and_reserved_labels_do_not_count() {
    let existing = slices("x: a; y: b");
    let existing: Vec<_> = existing.iter().collect();
    let mut empty = slice("");
    empty.metadata.labels = [("kubernetes.io/service-name", "web")].into_iter().collect();
    let changes = pack(&existing, desired("a b"), &Template { empty: &empty, capacity: 3 });
    assert_eq!(described(&changes), "");
    empty.metadata.labels = [("kubernetes.io/service-name", "web"), ("tier", "front")].into_iter().collect();
    let changes = pack(&existing, desired("a b"), &Template { empty: &empty, capacity: 3 });
    assert_eq!(described(&changes), "update x: a; update y: b");
    assert_eq!(changes.update[0].metadata.labels, empty.metadata.labels);
}

#[test]
fn a_slice_that_would_be_deleted_is_updated_instead_of_creating_one() {
    let existing = slices("x: a; y: b");
    let existing: Vec<_> = existing.iter().collect();
    let empty = slice("");
    let mut changes = pack(&existing, desired("b c d e f"), &Template { empty: &empty, capacity: 3 });
    assert_eq!(described(&changes), "create c d e; update y: b f; delete x");
    changes.reuse_deleted(|_| true);
    assert_eq!(described(&changes), "update y: b f; update x: c d e");
}
