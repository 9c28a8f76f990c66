//! The server as a library: one seed gives one history, virtual time is obeyed, and what was acknowledged survives
//! the death of the process.

#![allow(clippy::unwrap_used)] // errors should fail the test

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_apiserver::{ApiServer, Authorization, Options};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn options() -> Options {
    let clock = Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
    Options { clock, seed: 7, authorization: Authorization::AlwaysAllow, ..Options::default() }
}

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = server.clone().oneshot(request.body(Full::new(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn history(server: &ApiServer) -> Vec<Value> {
    let mut answers = Vec::new();
    for n in 0..20 {
        let object = json!({"metadata": {"generateName": "x-"}, "data": {"n": n.to_string()}});
        answers.push(send(server, "POST", "/api/v1/namespaces/default/configmaps", object).await.1);
        let service = json!({"metadata": {"name": format!("s{n}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        answers.push(send(server, "POST", "/api/v1/namespaces/default/services", service).await.1);
    }
    answers.push(send(server, "GET", "/api/v1/services", Value::Null).await.1);
    answers
}

#[tokio::test]
async fn one_seed_gives_one_history() {
    let (one, two) = (ApiServer::new(options()).unwrap(), ApiServer::new(options()).unwrap());
    assert_eq!(history(&one).await, history(&two).await);
    let other = ApiServer::new(Options { seed: 8, ..options() }).unwrap();
    assert_ne!(history(&one).await, history(&other).await);
}

#[tokio::test(start_paused = true)]
async fn watches_live_in_virtual_time() {
    let server = ApiServer::new(options()).unwrap();
    let path = "/api/v1/secrets?watch=1&allowWatchBookmarks=true&timeoutSeconds=150";
    let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
    let started = tokio::time::Instant::now();
    let response = server.clone().oneshot(request).await.unwrap();
    // Without a write there would be no event.
    let made = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "made"}});
    send(&server, "POST", "/api/v1/namespaces", made).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(started.elapsed(), Duration::from_secs(150));
    let lines: Vec<Value> =
        body.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["BOOKMARK", "BOOKMARK", "BOOKMARK"], "one a minute, and one before the end");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_a_watch_from_a_later_version_is_accepted_and_silent() {
    let server = ApiServer::new(options()).unwrap();
    let namespace = |name: &str| json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
    let before = server.store().version();
    for name in ["a", "b", "c"] {
        send(&server, "POST", "/api/v1/namespaces", namespace(name)).await;
    }
    let late = server.store().version();
    server.restore(before).unwrap();
    assert_eq!(send(&server, "GET", "/api/v1/namespaces/a", Value::Null).await.0, 404);
    let path = format!(
        "/api/v1/namespaces?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion={late}"
    );
    let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    send(&server, "POST", "/api/v1/namespaces", namespace("d")).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(String::from_utf8_lossy(&body), "");
}

#[tokio::test]
async fn events_end() {
    let now = Arc::new(std::sync::atomic::AtomicI64::new(1_700_000_000));
    let clock = Arc::clone(&now);
    let clock = Arc::new(move || {
        jiff::Timestamp::from_second(clock.load(std::sync::atomic::Ordering::Relaxed)).unwrap()
    });
    let server = ApiServer::new(Options { clock, ..options() }).unwrap();
    let event = |name: &str| {
        json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default", "kind": "Pod", "name": "p"},
               "reason": "R", "type": "Normal", "message": "m"})
    };
    let path = "/api/v1/namespaces/default/events";
    assert_eq!(send(&server, "POST", path, event("a")).await.0, 201);
    now.fetch_add(1800, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(send(&server, "POST", path, event("b")).await.0, 201);
    now.fetch_add(1801, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(send(&server, "POST", path, event("c")).await.0, 201);
    let names = send(&server, "GET", path, Value::Null).await.1;
    let names: Vec<&str> =
        names["items"].as_array().unwrap().iter().map(|e| e["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test]
async fn compaction_is_told_with_410() {
    let server = ApiServer::new(options()).unwrap();
    let (_, first) =
        send(&server, "POST", "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "a"}}))
            .await;
    let version = first["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    send(&server, "POST", "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "b"}})).await;
    server.store().compact(server.store().version());
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let (code, line) = send(&server, "GET", &path, Value::Null).await;
    assert_eq!(
        (code, &line["type"], &line["object"]["code"], &line["object"]["reason"]),
        (200, &json!("ERROR"), &json!(410), &json!("Expired"))
    );
    let path = format!("/api/v1/configmaps?resourceVersionMatch=Exact&resourceVersion={version}");
    let (code, status) = send(&server, "GET", &path, Value::Null).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn a_watch_tells_of_every_object_that_goes_with_its_definition_and_then_ends() {
    let server = ApiServer::new(options()).unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({"metadata": {"name": "gears.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"plural": "gears", "kind": "Gear"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    assert_eq!(send(&server, "POST", definitions, definition.clone()).await.0, 201);
    let gears = "/apis/x.io/v1/namespaces/default/gears";
    let gear =
        |n: u32| json!({"apiVersion": "x.io/v1", "kind": "Gear", "metadata": {"name": format!("g{n}")}});
    for n in 0..300 {
        assert_eq!(send(&server, "POST", gears, gear(n)).await.0, 201);
    }
    let version = send(&server, "GET", gears, Value::Null).await.1["metadata"]["resourceVersion"].clone();
    let watch = format!("{gears}?watch=1&timeoutSeconds=600&resourceVersion={}", version.as_str().unwrap());
    let request = Request::get(&watch).body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let path = format!("{definitions}/gears.x.io");
    assert_eq!(send(&server, "DELETE", &path, Value::Null).await.0, 200);
    assert_eq!(send(&server, "GET", &path, Value::Null).await.0, 404);

    let body = response.into_body().collect().await.unwrap().to_bytes();
    let lines = body.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    assert_eq!(lines.len(), 300);
    assert!(lines.iter().all(|line| line["type"] == "DELETED" && line["object"]["kind"] == "Gear"));

    assert_eq!(send(&server, "GET", gears, Value::Null).await.0, 404);
    assert_eq!(send(&server, "GET", &watch, Value::Null).await.0, 404);
    assert_eq!(send(&server, "POST", definitions, definition).await.0, 201);
    let (_, line) = send(&server, "GET", &watch, Value::Null).await;
    assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

const CHILD: &str = "FLYBALL_TEST_DATA_DIR";

/// Not a test of its own: what the child process of the next one does, until it is killed.
#[tokio::test]
async fn child_writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let server = ApiServer::new(Options { data_dir: Some(directory.into()), ..options() }).unwrap();
    for n in 0.. {
        let object = json!({"metadata": {"name": format!("c{n}")}, "data": {"n": n.to_string()}});
        let (code, _) = send(&server, "POST", "/api/v1/namespaces/default/configmaps", object).await;
        assert_eq!(code, 201);
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nwrote {n}").unwrap();
        out.flush().unwrap();
    }
}

fn write_and_kill(directory: &Path, after: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut last = 0;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    for (count, n) in lines.filter_map(|line| line.strip_prefix("wrote ")?.parse().ok()).enumerate() {
        last = n;
        if count >= after {
            child.kill().unwrap(); // SIGKILL
        }
    }
    child.wait().unwrap();
    last
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let last = tokio::task::spawn_blocking(move || write_and_kill(&path, 40)).await.unwrap();
    assert!(last >= 40, "the child wrote only {last}");
    let server = ApiServer::new(Options { data_dir: Some(directory.path().into()), ..options() }).unwrap();
    for n in 0..=last {
        let path = format!("/api/v1/namespaces/default/configmaps/c{n}");
        let (code, object) = send(&server, "GET", &path, Value::Null).await;
        assert_eq!((code, &object["data"]["n"]), (200, &json!(n.to_string())), "c{n} of {last}");
    }
    let (code, _) =
        send(&server, "POST", "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "z"}}))
            .await;
    assert_eq!(code, 201, "and life goes on");
}

#[tokio::test]
async fn metrics_count_what_is_served_and_nothing_else() {
    let server = ApiServer::new(options()).unwrap();
    let map = json!({"metadata": {"name": "a"}});
    let (code, _) = send(&server, "POST", "/api/v1/namespaces/default/configmaps", map).await;
    assert_eq!(code, 201);
    for made_up in 0..100 {
        send(&server, "GET", &format!("/apis/x{made_up}/v1/things"), Value::Null).await;
    }
    let request = Request::get("/metrics");
    let response = server.clone().oneshot(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8_lossy(&page);
    let posted = "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                  resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"POST\",version=\"v1\"} 1\n";
    assert!(page.contains(posted), "{page}");
    assert!(page.contains("apiserver_resource_objects{group=\"\",resource=\"configmaps\"} "), "{page}");
    let unknown: Vec<&str> = page.lines().filter(|line| line.contains("code=\"404\"")).collect();
    assert!(unknown.len() == 1 && unknown[0].ends_with(" 100"), "{unknown:?}");
}
