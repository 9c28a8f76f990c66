use serde_json::json;

use super::*;

fn pods() -> ShelfId {
    ShelfId::new("", "pods")
}

fn put(store: &Store, name: &str, n: u32) -> u64 {
    let key = Key::new("ns", name);
    let expected = store.get(&pods(), &key).map(|e| e.version);
    let object = json!({"metadata": {"name": name, "namespace": "ns"}, "n": n});
    store.commit(&pods(), &key, expected, Write::Put(object, Facets::default())).unwrap().version
}

fn remove(store: &Store, name: &str) -> u64 {
    let key = Key::new("ns", name);
    let old = store.get(&pods(), &key).unwrap();
    store.commit(&pods(), &key, Some(old.version), Write::Remove(old.value())).unwrap().version
}

fn names(page: &Page) -> String {
    let text = |e: &Arc<Entry>| format!("{}{}", e.key.name, e.value()["n"]);
    page.entries.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_older_version_is_listed_as_it_was() {
    let store = Store::in_memory(Limits::default());
    put(&store, "a", 1);
    let then = put(&store, "c", 1);
    put(&store, "b", 1);
    put(&store, "a", 2);
    remove(&store, "c");
    let at = |at, limit, after: Option<&str>| {
        let after = after.map(|name| Key::new("ns", name));
        store.list(&pods(), &Range { namespace: Some("ns"), after, at, limit }).unwrap()
    };
    assert_eq!(names(&at(None, None, None)), "a2 b1");
    assert_eq!(names(&at(Some(then), None, None)), "a1 c1");
    let first = at(Some(then), Some(1), None);
    assert_eq!((names(&first).as_str(), first.remaining), ("a1", 1));
    let second = at(Some(then), Some(1), Some("a"));
    assert_eq!((names(&second).as_str(), second.remaining), ("c1", 0));
}

#[test]
fn a_write_needs_the_state_it_was_planned_for() {
    let store = Store::in_memory(Limits::default());
    let old = put(&store, "a", 1);
    put(&store, "a", 2);
    let key = Key::new("ns", "a");
    let put = || Write::Put(json!({"metadata": {}}), Facets::default());
    assert_eq!(store.commit(&pods(), &key, None, put()).unwrap_err(), Refused::Exists);
    assert_eq!(store.commit(&pods(), &key, Some(old), put()).unwrap_err(), Refused::Changed);
    let absent = Key::new("ns", "b");
    assert_eq!(store.commit(&pods(), &absent, Some(old), put()).unwrap_err(), Refused::Changed);
}

#[test]
fn a_follower_reads_on_and_hears_of_compaction() {
    let store = Store::in_memory(Limits { events: 3, ..Limits::default() });
    let mut early = store.follow(&pods(), store.version()).unwrap();
    put(&store, "a", 1);
    let mut late = store.follow(&pods(), store.version()).unwrap();
    put(&store, "a", 2);
    remove(&store, "a");
    let seen = |events: Vec<Event>| events.iter().map(|e| format!("{:?}", e.happened)).collect::<Vec<_>>();
    assert_eq!(seen(store.next(&mut early, 10).unwrap()), ["Added", "Modified", "Deleted"]);
    assert_eq!(early.cursor(), store.version());
    put(&store, "b", 1);
    put(&store, "b", 2);
    put(&store, "b", 3);
    assert_eq!(seen(store.next(&mut early, 2).unwrap()), ["Added", "Modified"]);
    assert_eq!(seen(store.next(&mut early, 2).unwrap()), ["Modified"]);
    assert!(store.next(&mut late, 10).is_err(), "fell behind the history");
}

#[test]
fn frames_are_shared_or_built() {
    let store = Store::in_memory(Limits::default());
    put(&store, "a", 1);
    let entry = store.get(&pods(), &Key::new("ns", "a")).unwrap();
    let text = |b: bytes::Bytes| String::from_utf8(b.to_vec()).unwrap();
    let json = text(entry.json());
    assert_eq!(text(entry.frame(Happened::Added)), format!("{{\"type\":\"ADDED\",\"object\":{json}}}\n"));
    assert_eq!(text(entry.frame(Happened::Deleted)), format!("{{\"type\":\"DELETED\",\"object\":{json}}}\n"));
    assert!(text(entry.partial()).contains("\"metadata\":{\"name\":\"a\""));
}

#[tokio::test]
async fn a_reopened_store_has_every_acknowledged_write_and_never_reuses_a_version() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(directory.path(), Limits::default(), |_, _| Facets::default()).unwrap();
    let last = {
        let store = open();
        put(&store, "a", 1);
        put(&store, "b", 1);
        remove(&store, "a");
        let last = put(&store, "b", 2);
        store.durable(last).await.unwrap();
        last
    };
    // The writer lets go of the file once its queue is closed.
    let store = loop {
        match Store::open(directory.path(), Limits::default(), |_, _| Facets::default()) {
            Ok(store) => break store,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(names(&store.list(&pods(), &Range::default()).unwrap()), "b2");
    assert!(put(&store, "c", 1) > last);
    assert!(store.follow(&pods(), last).is_err(), "history does not survive");
}
