//! Whose turn it is, and what is said of it.

use std::sync::Arc;

use flyball_api::{Object, StorageVersionMigration, Timestamp};
use serde_json::{Value, json};

use super::plan::{
    begun, definition_begun, definition_ended, ended, failed, is_over, is_running, succeeded, turn,
};

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

/// A migration made at some second, with the conditions that hold.
fn migration(name: &str, second: u32, conditions: &[&str]) -> Arc<StorageVersionMigration> {
    let conditions: Vec<Value> =
        conditions.iter().map(|kind| json!({"type": kind, "status": "True", "reason": "r"})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "generation": 2},
        "spec": {"resource": {"group": "g", "resource": "things"}},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn one_migration_of_a_resource_runs_at_a_time_oldest_first() {
    const RUNS: &[&str] = &["Running"];
    #[rustfmt::skip]
    let table = [
        ("none",                   vec![],                                                                       "",     ""),
        ("the only one",           vec![migration("a", 1, &[])],                                                 "",     "a"),
        ("the oldest",             vec![migration("a", 2, &[]), migration("b", 1, &[])],                         "",     "b"),
        ("by name if as old",      vec![migration("a", 1, &[]), migration("b", 1, &[])],                         "",     "a"),
        ("one runs",               vec![migration("a", 1, &[]), migration("b", 2, RUNS)],                        "",     ""),
        ("one is over",            vec![migration("a", 1, &["Running", "Succeeded"]), migration("b", 2, &[])],   "a",    "b"),
        ("all was tidied up",      vec![migration("a", 1, &["Failed"]), migration("b", 2, &["Succeeded"])],      "",     ""),
    ];
    for (case, migrations, over, next) in table {
        let turn = turn(&migrations);
        let names: Vec<&str> = turn.over.iter().map(|m| m.meta().name.as_str()).collect();
        assert_eq!(names.join(" "), over, "{case}");
        assert_eq!(turn.next.map(|m| m.meta().name.as_str()).unwrap_or_default(), next, "{case}");
    }
}

#[test]
fn a_migration_begins_succeeds_or_fails_and_ends() {
    let waiting = migration("a", 1, &[]);
    let running = begun(&waiting, now());
    assert!(is_running(&running) && !is_over(&running));
    let done = succeeded(&running, now());
    assert!(is_running(&done) && is_over(&done));
    let stopped = ended(&done, now());
    assert!(!is_running(&stopped) && is_over(&stopped));
    assert_eq!(stopped.status.conditions.len(), 2, "its conditions change in place");
    assert_eq!(stopped.status.conditions[0].observed_generation, 2);
    assert_eq!(begun(&stopped, now()), stopped, "it does not begin again");
    assert_eq!(failed(&running, "why", now()).status.conditions[1].message, "why");
}

#[test]
fn a_definition_forgets_old_versions_unless_it_changed_meanwhile() {
    let definition = |generation: u32, seen: u32| {
        json!({
            "metadata": {"name": "things.g", "resourceVersion": "7", "generation": generation, "labels": {"theirs": "x"}},
            "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": true}]},
            "status": {"conditions": [{"type": "StorageMigrating", "status": "True", "observedGeneration": seen}], "storedVersions": ["v1", "v2"]},
        })
    };
    let begun = definition_begun(&definition(3, 0), "a", now());
    assert_eq!(begun["status"]["conditions"][0]["message"], "Migration a is running");
    assert_eq!(begun["status"]["conditions"][0]["observedGeneration"], 3);
    assert_eq!(begun["metadata"], json!({"name": "things.g", "resourceVersion": "7"}));
    #[rustfmt::skip]
    let table = [
        ("unchanged", definition(3, 3), true,  "MigrationSucceeded", json!(["v2"])),
        ("changed",   definition(4, 3), true,  "MigrationSucceeded", Value::Null),
        ("failed",    definition(3, 3), false, "MigrationFailed",    Value::Null),
    ];
    for (case, definition, is_success, reason, stored) in table {
        let ended = definition_ended(&definition, is_success, now());
        assert_eq!(ended["status"]["conditions"][0]["reason"], reason, "{case}");
        assert_eq!(ended["status"]["storedVersions"], stored, "{case}");
    }
}
