//! What a v1.36.4 server answered to creating each kind of object, and whether ours answers the same. The rows in
//! `data/created.jsonl` were recorded from the real server, without what its admission plugins added to pods.

#![allow(clippy::unwrap_used, reason = "a fixture that cannot be read is a failed test")]

use flyball_apiserver::kinds::{self, schema, service};
use flyball_apiserver::registry::{Builtin, Cx, Subresource, User};
use serde_json::Value;

const CREATED: &str = include_str!("data/created.jsonl");
const REFUSED: &str = include_str!("data/refused.jsonl");
const NOW: &str = "2026-01-01T00:00:00Z";
const UID: &str = "00000000-0000-0000-0000-000000000001";

fn find<'a>(catalog: &'a [Builtin], object: &Value) -> &'a Builtin {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let wanted =
        |b: &&Builtin| b.info.group == group && b.info.version == version && b.info.kind == object["kind"];
    catalog.iter().find(wanted).unwrap_or_else(|| panic!("{api_version} {} is not served", object["kind"]))
}

fn reshape(object: &mut Value) {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let kind = schema::builtin().kind(api_version, kind).unwrap();
    assert_eq!(kinds::shape(schema::builtin(), kind, object), Ok(vec![]));
}

/// The way of a new object through decoding, defaulting and its strategy; allocation of addresses is left out.
fn create(resource: &Builtin, mut object: Value, want: &Value) -> Value {
    let user = User {
        name: "admin".to_owned(),
        uid: "admin-uid".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    };
    let cx = Cx { now: NOW.parse().unwrap(), user: &user };
    reshape(&mut object);
    let mut object = resource.strategy.to_storage(object);
    resource.strategy.default(&mut object);
    object["metadata"]["uid"] = UID.into();
    if resource.info.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    if resource.info.generation {
        object["metadata"]["generation"] = 1.into();
    }
    if resource.info.subresources.contains(&Subresource::Status) && !resource.strategy.keep_status_on_create()
    {
        object.as_object_mut().unwrap().remove("status");
    }
    resource.strategy.prepare_create(&cx, &mut object);
    if object["kind"] == "Service" {
        service::decide_families(&mut object, &["IPv4", "IPv6"]);
        for field in ["clusterIP", "clusterIPs"].into_iter().filter(|_| want.is_object()) {
            object["spec"][field] = want["spec"][field].clone();
        }
    }
    reshape(&mut object);
    object
}

/// A stored object as clients see it.
fn serve(resource: &Builtin, object: Value) -> Value {
    let mut object = resource.strategy.serve(object);
    reshape(&mut object);
    object["metadata"].as_object_mut().unwrap().remove("uid");
    object
}

#[test]
fn new_objects_look_as_on_the_real_server() {
    let catalog = kinds::catalog();
    let mut wrong = Vec::new();
    for row in CREATED.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let (want, resource) = (&row["out"], find(&catalog, &row["in"]));
        let stored = create(resource, row["in"].clone(), want);
        assert_eq!(resource.strategy.validate_create(&stored), vec![], "{} is refused", row["name"]);
        assert_eq!(
            resource.strategy.validate_update(&stored, &stored),
            vec![],
            "{} may not stay",
            row["name"]
        );
        let got = serve(resource, stored);
        if got != *want {
            wrong.push(format!("{}\n  got  {got}\n  want {want}", row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn mistakes_are_named_as_on_the_real_server() {
    let catalog = kinds::catalog();
    let mut wrong = Vec::new();
    for row in REFUSED.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let resource = find(&catalog, &row["in"]);
        let stored = create(resource, row["in"].clone(), &Value::Null);
        let found = resource.strategy.validate_create(&stored);
        let got: Vec<[String; 3]> =
            found.into_iter().map(|c| [c.field, c.fault.reason().to_owned(), c.message]).collect();
        let want: Vec<[String; 3]> = serde_json::from_value(row["causes"].clone()).unwrap();
        if got != want {
            wrong.push(format!("{}\n  got  {got:?}\n  want {want:?}", row["name"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
