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
        store.close().await;
        let late = put(&store, "late", 1);
        assert!(store.durable(late).await.is_err(), "it is closed");
        last
    };
    let store = open();
    assert_eq!(names(&store.list(&pods(), &Range::default()).unwrap()), "b2");
    assert!(put(&store, "c", 1) > last);
    assert!(store.follow(&pods(), last).is_err(), "history does not survive");
}

fn open(directory: &std::path::Path) -> Result<Store, OpenError> {
    Store::open(directory, Limits::default(), |_, _| Facets::default())
}

/// A directory with some objects in it, closed.
async fn filled() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let last = (0..200).map(|n| put(&store, &format!("pod-{n}"), n)).max().unwrap();
    store.durable(last).await.unwrap();
    store.close().await;
    directory
}

#[tokio::test]
async fn a_database_is_readable_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = filled().await;
    let file = directory.path().join("objects.redb");
    let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // As a copy of it may be.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(directory.path()).unwrap();
    assert_eq!(mode(), 0o600);
    store.close().await;
}

#[tokio::test]
async fn a_directory_that_is_in_use_is_not_opened_twice() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path()).unwrap();
    let refused = open(directory.path()).err().unwrap();
    let want = format!(
        "the data directory {} is in use by another process ({})",
        directory.path().display(),
        std::process::id()
    );
    assert_eq!(refused.to_string(), want);
}

#[tokio::test]
async fn a_database_of_a_newer_format_is_left_alone() {
    let directory = filled().await;
    let file = directory.path().join("objects.redb");
    let table = redb::TableDefinition::<&str, u64>::new("meta");
    let database = redb::Database::open(&file).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(table).unwrap().insert("format", 7).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = open(directory.path()).err().unwrap().to_string();
    let want = "was written by a newer version: it has format 7, and this version knows 1 at most";
    assert!(refused.ends_with(want) && refused.contains("objects.redb"), "{refused}");
}

/// Whatever has happened to the file, opening it gives a store or a reason that names the file.
#[tokio::test]
async fn a_damaged_database_is_told_so() {
    let directory = filled().await;
    let file = directory.path().join("objects.redb");
    let whole = std::fs::read(&file).unwrap();
    let short = whole[..whole.len() / 2].to_vec();
    let mut worn = Vec::new();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        let end = (at + 512).min(bytes.len());
        bytes[at..end].fill(0xa5);
        worn.push(bytes);
    }
    let certain = [b"no database".to_vec(), short];
    for (case, bytes) in certain.iter().chain(&worn).enumerate() {
        std::fs::write(&file, bytes).unwrap();
        match open(directory.path()) {
            Ok(store) => assert!(case >= certain.len(), "case {case} has {} objects", store.len(&pods())),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("objects.redb is damaged"), "case {case}: {message}");
            }
        }
        // The writer lets go of the file once its queue is closed; a copy has no such past.
        std::fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn a_restored_store_gives_versions_out_again_and_knows_nothing_from_before() {
    let store = Store::in_memory(Limits::default());
    put(&store, "a", 1);
    let then = put(&store, "b", 1);
    let mut follower = store.follow(&pods(), then).unwrap();
    put(&store, "a", 2);
    remove(&store, "b");
    let later = put(&store, "c", 1);
    store.restore(then).unwrap();
    assert!(follower.changed().await, "what happened before…");
    assert!(!follower.changed().await, "…and then the end");
    assert_eq!(store.version(), then);
    assert_eq!(names(&store.list(&pods(), &Range::default()).unwrap()), "a1 b1");
    assert_eq!(store.follow(&pods(), then - 1).unwrap_err(), Compacted { oldest: then });
    assert_eq!(store.restore(then - 1), Err(Compacted { oldest: then }));
    assert_eq!(store.restore(then + 1), Err(Compacted { oldest: then }), "nor what is still to come");

    // A follower from a future version is accepted, and gets no events until that version is reached.
    let mut follower = store.follow(&pods(), later).unwrap();
    while put(&store, "d", 1) < later {
        assert_eq!(store.next(&mut follower, 10).unwrap().len(), 0);
        assert_eq!(follower.cursor(), later);
    }
    put(&store, "d", 2);
    assert_eq!(store.next(&mut follower, 10).unwrap().len(), 1);
}

#[tokio::test]
async fn followers_of_a_dropped_shelf_read_its_history_to_the_end() {
    let store = Store::in_memory(Limits::default());
    let start = put(&store, "a", 1);
    let mut follower = store.follow(&pods(), start).unwrap();
    put(&store, "b", 1);
    remove(&store, "a");
    let last = remove(&store, "b");
    store.drop_shelf(&pods());
    assert!(follower.changed().await);
    let mut seen = Vec::new();
    loop {
        let events = store.next(&mut follower, 2).unwrap();
        if events.is_empty() {
            break;
        }
        seen.extend(events.iter().map(|e| format!("{:?} {}", e.happened, e.entry.key.name)));
    }
    assert_eq!(seen, ["Added b", "Deleted a", "Deleted b"]);
    assert!(!follower.changed().await, "and then the end");

    // A later resource of that name has a history of its own.
    put(&store, "a", 2);
    assert_eq!(store.follow(&pods(), start).unwrap_err(), Compacted { oldest: last });
    assert_eq!(store.next(&mut follower, 2).unwrap().len(), 0);
}

fn saved(store: &Store) -> String {
    let mut bytes = Vec::new();
    store.save(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn no_facets(_: &ShelfId, _: &Value) -> Facets {
    Facets::default()
}

#[test]
fn a_snapshot_replaces_everything_under_a_version_that_nobody_has_seen() {
    let store = Store::in_memory(Limits::default());
    put(&store, "a", 1);
    put(&store, "b with a space", 1);
    let snapshot = saved(&store);
    remove(&store, "a");
    let last = put(&store, "c", 1);
    let mut follower = store.follow(&pods(), last).unwrap();

    let version = store.replace(&Snapshot::read(&mut snapshot.as_bytes()).unwrap(), no_facets);
    assert!(version > last);
    assert_eq!(names(&store.list(&pods(), &Range::default()).unwrap()), "a1 b with a space1");
    assert!(store.next(&mut follower, 10).is_err(), "a watch from before is over");
    assert!(store.follow(&ShelfId::new("", "secrets"), last).is_err(), "also where there are no objects");
    assert!(put(&store, "a", 2) > version);
}

#[test]
fn a_damaged_snapshot_is_refused_with_its_line() {
    let store = Store::in_memory(Limits::default());
    put(&store, "a", 1);
    put(&store, "b", 1);
    let whole = saved(&store);
    let lines: Vec<&str> = whole.lines().collect();
    let refused = |text: String| Snapshot::read(&mut text.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused(String::new()), "line 1 is not an object: it is empty");
    assert_eq!(refused(lines[..2].join("\n")), "it ends too early: 1 of 2 objects are there");
    assert!(refused(lines[1..].join("\n")).starts_with("line 1 is not an object: missing field `version`"));
    assert!(refused(format!("{}\n{{\"key\":", lines[0])).starts_with("line 2 is not an object: EOF"));
    let wrong = format!("{}\n{{\"key\":\"pods\",\"object\":{{}}}}", lines[0]);
    assert_eq!(refused(wrong), "line 2 is not an object: \"pods\" is not a key");
    let number = format!("{}\n{{\"key\":\"/pods/ns/a\",\"object\":5}}", lines[0]);
    assert_eq!(refused(number), "line 2 is not an object: \"/pods/ns/a\" has no metadata");
    let last = format!("{{\"version\":{},\"objects\":0}}", u64::MAX);
    assert!(refused(last).starts_with("line 1 is not an object: no store has a version above"));
}

#[tokio::test]
async fn a_replaced_database_has_only_what_the_snapshot_held() {
    let directory = filled().await;
    let other = Store::in_memory(Limits::default());
    put(&other, "a", 1);
    let snapshot = Snapshot::read(&mut saved(&other).as_bytes()).unwrap();
    let store = open(directory.path()).unwrap();
    let version = store.replace(&snapshot, no_facets);
    store.durable(version).await.unwrap();
    store.close().await;
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(names(&store.list(&pods(), &Range::default()).unwrap()), "a1");
    assert!(store.version() > version);
}
