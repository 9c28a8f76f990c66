//! Look-ups: by name, namespace and index, while objects come, change and go.

use std::sync::Arc;

use flyball_api::{Key, Object};
use serde_json::json;

use super::Widget;
use crate::table::Table;
use crate::{Index, Store, by_controller, by_owner, by_uid};

const BY_NODE: Index<Widget> = Index::new("node", |widget, emit| {
    if !widget.node.is_empty() {
        emit(&widget.node);
    }
});

const BY_LETTER: Index<Widget> = Index::new("letter", |widget, emit| {
    for letter in widget.node.chars() {
        emit(letter.encode_utf8(&mut [0; 4]));
    }
});

fn widget(name: &str, node: &str) -> Arc<Widget> {
    let key = Key::parse(name).unwrap();
    let meta = json!({"name": key.name, "namespace": key.namespace, "uid": format!("uid of {name}")});
    Arc::new(serde_json::from_value(json!({"metadata": meta, "node": node})).unwrap())
}

fn names(mut objects: Vec<Arc<Widget>>) -> String {
    objects.sort_by_key(|object| object.key());
    objects.iter().map(|object| object.key().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn objects_are_found_by_name_namespace_and_every_key_of_every_index() {
    let store = Store::new();
    store.install(&BY_LETTER);
    for (name, node) in [("a/x", "pq"), ("a/y", "q"), ("b/x", "r"), ("c", "qq")] {
        assert!(store.put(&widget(name, node)).is_none());
    }
    assert_eq!(store.len(), 4);
    assert_eq!(store.get(&Key::new("a", "y")).unwrap().node, "q");
    assert!(store.get(&Key::new("b", "y")).is_none());
    assert_eq!(names(store.list()), "c a/x a/y b/x");
    #[rustfmt::skip]
    let table = [
        ("namespace a",         store.in_namespace("a"),       "a/x a/y"),
        ("no such namespace",   store.in_namespace("z"),       ""),
        ("no namespace",        store.in_namespace(""),        ""),
        ("letter q",            store.by(&BY_LETTER, "q"),     "c a/x a/y"),
        ("letter p",            store.by(&BY_LETTER, "p"),     "a/x"),
        ("no such letter",      store.by(&BY_LETTER, "z"),     ""),
    ];
    for (case, found, want) in table {
        assert_eq!(names(found), want, "{case}");
    }
    assert_eq!(store.count_by(&BY_LETTER, "q"), 3);
}

#[test]
fn indexes_follow_changes_and_deletions() {
    let store = Store::new();
    store.install(&BY_NODE);
    for node in ["n1", "n1", "n2", ""] {
        store.put(&widget("a/x", node));
        store.put(&widget("a/y", "n1"));
        let on_n1 = if node == "n1" { "a/x a/y" } else { "a/y" };
        assert_eq!(names(store.by(&BY_NODE, "n1")), on_n1, "{node}");
        assert_eq!(names(store.by(&BY_NODE, "n2")), if node == "n2" { "a/x" } else { "" }, "{node}");
    }
    assert!(store.take(&Key::new("a", "y")).is_some());
    assert!(store.take(&Key::new("a", "y")).is_none());
    assert_eq!(names(store.by(&BY_NODE, "n1")), "");
    assert_eq!(names(store.in_namespace("a")), "a/x");
}

#[test]
fn an_index_shows_the_newest_version_of_an_object() {
    let store = Store::new();
    store.install(&BY_NODE);
    store.put(&widget("a/x", "n"));
    let newer = widget("a/x", "n");
    store.put(&newer);
    assert!(Arc::ptr_eq(&store.by(&BY_NODE, "n")[0], &newer));
    assert!(Arc::ptr_eq(&store.in_namespace("a")[0], &newer));
}

#[test]
fn an_index_asked_for_late_covers_the_objects_that_are_there() {
    let store = Store::new();
    store.put(&widget("a/x", "n1"));
    store.put(&widget("a/y", "n2"));
    assert_eq!(names(store.by(&BY_NODE, "n1")), "a/x");
    store.put(&widget("a/y", "n1"));
    assert_eq!(names(store.by(&BY_NODE, "n1")), "a/x a/y");
}

#[test]
fn owners_are_found_by_identity() {
    let store = Store::<Widget>::new();
    let owner = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": controller});
    let meta = json!({"name": "x", "namespace": "a", "uid": "u", "ownerReferences": [owner("o1", false), owner("o2", true)]});
    store.put(&Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap()));
    assert_eq!(store.count_by(&by_controller(), "o1"), 0);
    assert_eq!(store.count_by(&by_controller(), "o2"), 1);
    assert_eq!(store.count_by(&by_owner(), "o1"), 1);
    assert_eq!(store.count_by(&by_uid(), "u"), 1);
}

#[test]
fn a_table_gives_memory_back_when_its_objects_have_gone() {
    let mut table = Table::default();
    let objects: Vec<_> = (0..10_000).map(|n| widget(&format!("a/{n}"), "n")).collect();
    for object in &objects {
        table.insert(object.clone());
    }
    let full = table.bytes();
    for object in &objects[100..] {
        assert!(table.remove("a", &object.meta().name).is_some());
    }
    assert!(table.bytes() < full / 20, "{} of {full}", table.bytes());
    assert!(objects[..100].iter().all(|object| table.contains(object)));
}
