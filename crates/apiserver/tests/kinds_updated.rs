//! What a v1.36.4 server answered to changes of objects and of their status, and whether ours answers the same: which
//! fields take effect, when the generation rises, what may not change. Each row of `data/updated.jsonl` creates an
//! object, reads it, edits it (`edit` is a merge patch) and puts it back.

#![allow(clippy::unwrap_used, reason = "a fixture that cannot be read is a failed test")]

use std::sync::Arc;

use bytes::Bytes;
use flyball_apiserver::{ApiServer, Options, StaticToken};
use http_body_util::BodyExt as _;
use serde_json::Value;

const UPDATED: &str = include_str!("data/updated.jsonl");
const NOW: &str = "2026-01-01T00:00:00Z";

fn server() -> ApiServer {
    let now = NOW.parse().unwrap();
    ApiServer::new(Options {
        clock: Arc::new(move || now),
        tokens: vec![StaticToken::new("admin-token", "admin", &["system:masters"])],
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap(), "fd00:96::/112".parse().unwrap()],
        disabled_admission: ["ServiceAccount".to_owned()].into(),
        ..Options::default()
    })
    .unwrap()
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer admin-token")
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = server.handle(request.into_parts().0, body).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// Without what differs from run to run.
fn normal(mut object: Value, uid: &str) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    if object["kind"] == "Service" {
        let spec = object["spec"].as_object_mut().unwrap();
        for field in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            spec.remove(field);
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().unwrap().remove("nodePort");
        }
    }
    if object["kind"] == "Pod" {
        let spec = object["spec"].as_object_mut().unwrap();
        for field in ["priority", "preemptionPolicy", "tolerations"] {
            spec.remove(field);
        }
    }
    serde_json::from_str(&object.to_string().replace(uid, "UUID").replace(NOW, "NOW")).unwrap()
}

/// Field, reason and message of each cause. Upstream appends a diff of its internal types to some; ours does not.
fn causes(status: &Value, uid: &str) -> Vec<[String; 3]> {
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or("").replace(uid, "UUID");
    let list = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    list.iter().map(|c| [text(c, "field"), text(c, "reason"), text(c, "message")]).collect()
}

#[tokio::test]
async fn changes_take_effect_as_on_the_real_server() {
    let mut wrong = Vec::new();
    for row in UPDATED.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let server = server();
        let collection = row["path"].as_str().unwrap();
        let (code, made) = send(&server, "POST", collection, &row["create"]).await;
        assert_eq!(code, 201, "{}: {made}", row["name"]);
        let uid = made["metadata"]["uid"].as_str().unwrap();
        let path = format!("{collection}/{}", row["create"]["metadata"]["name"].as_str().unwrap());
        let (_, mut body) = send(&server, "GET", &path, &Value::Null).await;
        json_patch::merge(&mut body, &row["edit"]);
        let path = row["sub"].as_str().map_or(path.clone(), |sub| format!("{path}/{sub}"));
        let (code, answer) = send(&server, "PUT", &path, &body).await;
        let same = match code {
            200 => normal(answer.clone(), uid) == row["out"],
            _ => serde_json::to_value(causes(&answer, uid)).unwrap() == row["causes"],
        };
        if code != row["code"] || !same {
            let want = if row["code"] == 200 { &row["out"] } else { &row["causes"] };
            wrong.push(format!("{}\n  got  {code} {answer}\n  want {} {want}", row["name"], row["code"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
