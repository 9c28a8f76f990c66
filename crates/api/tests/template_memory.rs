//! What the versions of an object with a pod template take: the template only once. One test, since it counts what the process
//! allocates.

use std::alloc::System;

use flyball_api::replica_set::ReplicaSetSpec;
use flyball_api::{Templated, WithRaw};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The spec of a ReplicaSet whose template has about 2 kB.
fn spec(name: &str, replicas: u32) -> String {
    let env: Vec<Value> =
        (0..40).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "some-value"})).collect();
    let template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1", "env": env}]},
    });
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template})
        .to_string()
}

/// The spec, and the bytes that it holds on the heap.
fn held<T: DeserializeOwned>(text: &str) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let spec = serde_json::from_str(text).expect("a spec");
    let stats = region.change();
    (spec, stats.bytes_allocated - stats.bytes_deallocated)
}

#[test]
fn a_template_takes_its_memory_once() {
    let text = spec("web", 3);
    // What is made once for the whole process is not counted.
    let _warm: (Templated<ReplicaSetSpec>, usize) = held(&spec("other", 1));
    let (_whole, before): (WithRaw<ReplicaSetSpec>, usize) = held(&text);
    drop(_whole);
    let text = spec("web-2", 3);
    let (_first, first): (Templated<ReplicaSetSpec>, usize) = held(&text);
    let (_second, second): (Templated<ReplicaSetSpec>, usize) = held(&spec("web-2", 4));
    println!(
        "{} bytes of JSON: {before} bytes with the template in spec and template, {first} with one, {second} for another version",
        text.len()
    );
    assert!(first < before * 2 / 3, "{first} of {before}");
    assert!(second < before / 10, "{second} of {before}");
}
