//! Which migration runs, up to which version its objects are rewritten, and how it ends.

use std::sync::Arc;

use flyball_api::{PartialObject, ResourceType, ResourceVersion, StorageVersionMigration, Timestamp};
use flyball_client::{ApiStatus, DiscoveredResource, Error, Patch};
use flyball_runtime::plan::Operation;
use flyball_runtime::{ErrorKinds, Plan};
use serde_json::{Value, json};

use super::checkpoint::plan as checkpoint;
use super::definition;
use super::rewriting::plan::{self as rewriting, impossible, old, refusal, success};
use super::status::{begun, ended, failed, is_over, is_running, succeeded};
use super::turns::plan::{self as turns, turn};

const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);

/// Long after migrations are created, which is at midnight.
fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A migration created at some second, with the conditions that hold and a checkpoint.
fn migration(name: &str, second: u32, conditions: &[&str], checkpoint: &str) -> Arc<StorageVersionMigration> {
    let conditions: Vec<Value> =
        conditions.iter().map(|kind| json!({"type": kind, "status": "True", "reason": "r"})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "generation": 2},
        "spec": {"resource": {"group": "g", "resource": "things"}},
        "status": {"conditions": conditions, "resourceVersion": checkpoint},
    }))
    .unwrap()
}

fn definition(generation: u32, seen: u32) -> Value {
    json!({
        "metadata": {"name": "things.g", "resourceVersion": "7", "generation": generation, "labels": {"theirs": "x"}},
        "spec": {"versions": [{"name": "v1"}, {"name": "v2", "storage": true}]},
        "status": {"conditions": [{"type": "StorageMigrating", "status": "True", "observedGeneration": seen}], "storedVersions": ["v1", "v2"]},
    })
}

#[test]
fn one_migration_of_a_resource_runs_at_a_time_oldest_first() {
    const RUNS: &[&str] = &["Running"];
    let of = |name, second, conditions| migration(name, second, conditions, "");
    #[rustfmt::skip]
    let table = [
        ("none",                   vec![],                                                         ""),
        ("the only one",           vec![of("a", 1, &[])],                                          "start a"),
        ("the oldest",             vec![of("a", 2, &[]), of("b", 1, &[])],                         "start b"),
        ("by name if as old",      vec![of("a", 1, &[]), of("b", 1, &[])],                         "start a"),
        ("one runs",               vec![of("a", 1, &[]), of("b", 2, RUNS)],                        ""),
        ("one is over",            vec![of("a", 1, &["Running", "Succeeded"]), of("b", 2, &[])],   "stop a"),
        ("one has stopped",        vec![of("a", 1, &["Succeeded"]), of("b", 2, &[])],              "start b"),
        ("all have stopped",       vec![of("a", 1, &["Failed"]), of("b", 2, &["Succeeded"])],      ""),
    ];
    for (case, migrations, want) in table {
        let got = turn(&migrations).map_or_else(String::new, |turn| {
            format!("{} {}", if turn.is_over { "stop" } else { "start" }, turn.migration.metadata.name)
        });
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_definition_is_updated_before_the_migration_of_its_objects() {
    #[rustfmt::skip]
    let table = [
        // case       conditions               definition  plan
        ("starts",    vec![],                       false, "update StorageVersionMigration/status a: it is the oldest"),
        ("custom",    vec![],                       true,  "patch CustomResourceDefinition/status things.g: the migration of its objects starts\n\
                                                            update StorageVersionMigration/status a: it is the oldest"),
        ("stops",     vec!["Running", "Failed"],    true,  "patch CustomResourceDefinition/status things.g: the migration of its objects is over\n\
                                                            update StorageVersionMigration/status a: it is over"),
    ];
    for (case, conditions, is_custom, want) in table {
        let migrations = [migration("a", 1, &conditions, "")];
        let definition = is_custom.then(|| definition(3, 3));
        let plan = turns::plan(turn(&migrations).unwrap(), definition.as_ref(), noon());
        assert_eq!(plan.to_string(), want, "{case}");
    }
}

#[test]
fn a_migration_starts_succeeds_or_fails_and_stops() {
    let waiting = migration("a", 1, &[], "");
    let running = begun(&waiting, noon());
    assert!(is_running(&running) && !is_over(&running));
    let done = succeeded(&running, noon());
    assert!(is_running(&done) && is_over(&done));
    let stopped = ended(&done, noon());
    assert!(!is_running(&stopped) && is_over(&stopped));
    assert_eq!(stopped.status.conditions.len(), 2, "its conditions change in place");
    assert_eq!(stopped.status.conditions[0].observed_generation, 2);
    assert_eq!(begun(&stopped, noon()), stopped, "it does not start again");
    assert_eq!(failed(&running, "why", noon()).status.conditions[1].message, "why");
}

#[test]
fn old_stored_versions_are_removed_unless_the_definition_changed_meanwhile() {
    let begun = definition::begun(&definition(3, 0), "a", noon());
    assert_eq!(begun["conditions"][0]["message"], "Migration a is running");
    assert_eq!(begun["conditions"][0]["observedGeneration"], 3);
    let Operation::Patch(Patch::Apply { manager, force, object }) =
        definition::apply(&definition(3, 0), begun, "why").operation
    else {
        panic!("not an apply")
    };
    assert_eq!((manager.as_str(), force), ("migration-runner-controller", true));
    assert_eq!(object["metadata"], json!({"name": "things.g", "resourceVersion": "7"}));
    #[rustfmt::skip]
    let table = [
        ("unchanged", definition(3, 3), true,  "MigrationSucceeded", json!(["v2"])),
        ("changed",   definition(4, 3), true,  "MigrationSucceeded", Value::Null),
        ("failed",    definition(3, 3), false, "MigrationFailed",    Value::Null),
    ];
    for (case, definition, is_success, reason, stored) in table {
        let ended = definition::ended(&definition, is_success, noon());
        assert_eq!(ended["conditions"][0]["reason"], reason, "{case}");
        assert_eq!(ended["storedVersions"], stored, "{case}");
    }
}

/// The message of the only condition that a plan adds.
fn message(plan: &Plan) -> String {
    let [write] = plan.writes()[..] else { panic!("{plan}") };
    let body = write.body().unwrap();
    let conditions = body["status"]["conditions"].as_array().unwrap();
    let text = |field: &str| conditions.last().and_then(|last| last[field].as_str()).unwrap_or_default();
    format!("{}: {}", text("type"), text("message"))
}

#[test]
fn the_checkpoint_is_the_version_of_the_resource() {
    let found = |verbs: &str| DiscoveredResource {
        resource: ResourceType::new("g", "v1", "things", "Thing", true),
        verbs: verbs.split(' ').map(Into::into).collect(),
        subresources: vec![],
        preferred: true,
        short_names: vec![],
        categories: vec![],
    };
    let soon: Timestamp = "2026-01-01T00:00:31Z".parse().unwrap();
    let plan = |conditions: &[&str], found: Option<DiscoveredResource>, now| {
        let migration = migration("a", 1, conditions, "");
        let version = Some(ResourceVersion(9));
        checkpoint::plan(&checkpoint::View { migration: &migration, found: found.as_ref(), version, now })
    };
    assert_eq!(plan(&[], Some(found("update patch list")), noon()).to_string(), "", "it does not run");
    let checked = plan(&["Running"], Some(found("update patch list")), noon());
    assert_eq!(checked.writes()[0].body().unwrap()["status"]["resourceVersion"], "9");
    assert_eq!(
        plan(&["Running"], None, soon).to_string(),
        "not yet: g/things is not served yet\n\
         waiting for 2026-01-01T00:01:01Z, when the migration fails if its resource is not served"
    );
    assert_eq!(message(&plan(&["Running"], None, noon())), "Failed: resource does not exist in discovery");
    let lacking = plan(&["Running"], Some(found("patch list")), noon());
    assert_eq!(
        lacking.writes()[0].why,
        r#"resource "g/v1, Resource=things" does not support discovery operations: [update patch list]"#
    );
}

#[test]
fn objects_up_to_the_checkpoint_are_rewritten_under_the_name_of_the_controller() {
    let object = |name: &str, version: u64| -> Arc<PartialObject> {
        let meta =
            json!({"namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string()});
        Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap())
    };
    let old = old(vec![object("c", 9), object("b", 4), object("a", 8), object("d", 10)], ResourceVersion(9));
    let plan = rewriting::plan(&CONFIG_MAPS, &old[..1]);
    assert_eq!(old.iter().map(|object| object.metadata.name.as_str()).collect::<String>(), "abc");
    assert_eq!(plan.to_string(), "patch ConfigMap ns/a: it may be stored in an old version");
    let [write] = plan.writes()[..] else { panic!("{plan}") };
    assert_eq!(write.ignore, ErrorKinds::CONFLICT);
    // Upstream: storageversionmigrator.go, runMigration: an apply, without force, as `controllerName`.
    let Operation::Patch(Patch::Apply { manager, force, object }) = &write.operation else {
        panic!("{write}")
    };
    assert_eq!((manager.as_str(), *force), ("storage-version-migrator-controller", false));
    let metadata = json!({"uid": "a", "resourceVersion": "8"});
    assert_eq!(*object, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
}

#[test]
fn a_migration_fails_with_the_words_of_the_server_unless_its_error_may_pass() {
    let migration = migration("a", 1, &["Running"], "x");
    let error = |code, message: &str| {
        Error::Status(Box::new(ApiStatus { code, message: message.into(), ..ApiStatus::default() }))
    };
    for code in [429, 500, 503, 504] {
        assert!(refusal(&migration, &error(code, ""), noon()).is_none(), "{code}");
    }
    let refused = Plan::of([refusal(&migration, &error(403, "no"), noon()).unwrap()]);
    assert_eq!(message(&refused), "Failed: migration encountered unhandled error: no");
    assert_eq!(message(&Plan::of([success(&migration, noon())])), "Succeeded: ");
    #[rustfmt::skip]
    let table = [
        (None,                      r#"Failed: migration encountered unhandled error: "x" is no resource version"#),
        (Some(ResourceVersion(1)),  "Failed: migration encountered unhandled error: unable to obtain GVR from discovery"),
    ];
    for (checkpoint, want) in table {
        assert_eq!(message(&impossible(&migration, checkpoint, noon())), want);
    }
}
