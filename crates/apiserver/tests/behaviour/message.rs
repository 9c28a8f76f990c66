//! Answers in protocol buffers: shown as JSON for the tables, and compared with those of the real server byte by byte.

use bytes::Bytes;
use flyball_api::protobuf::{self, Envelope, List, WatchEvent};
use flyball_apiserver::kinds;
use flyball_apiserver::registry::Verbs;
use http::Request;
use serde_json::{Value, json};

use crate::real::{self, Real};

/// An object or a list in its envelope, as the JSON that it stands for.
pub(crate) fn shown(bytes: &[u8]) -> Value {
    let envelope = Envelope::open(bytes).unwrap();
    if !envelope.kind.ends_with("List") {
        return serde_json::from_str(&envelope.to_json().unwrap()).unwrap();
    }
    let list = List::open(envelope.raw).unwrap();
    let message = envelope.item_message().unwrap();
    let item =
        |raw: &&[u8]| -> Value { serde_json::from_str(&protobuf::to_json(message, raw).unwrap()).unwrap() };
    let mut metadata = json!({"resourceVersion": list.resource_version});
    if !list.continue_.is_empty() {
        metadata["continue"] = json!(list.continue_);
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let items: Vec<Value> = list.items.iter().map(item).collect();
    json!({"kind": envelope.kind, "apiVersion": envelope.api_version, "metadata": metadata, "items": items})
}

/// The events of a watch, each after its length.
pub(crate) fn events(mut bytes: &[u8]) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        let event = WatchEvent::open(event).unwrap();
        events.push(json!({"type": event.type_, "object": shown(event.object)}));
        bytes = rest;
    }
    events
}

async fn get(real: &Real, path: &str, accept: &str) -> (u16, Bytes) {
    let request = Request::get(path).header("authorization", "Bearer admin-token").header("accept", accept);
    let (parts, body) = real.send(request.body(Bytes::new()).unwrap()).await;
    (parts.status.as_u16(), body)
}

/// One object of every kind.
async fn create_all(real: &Real) {
    for line in include_str!("../data/created.jsonl").lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        let object = &object["in"];
        let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let of = kinds::catalog();
        let Some(info) =
            of.iter().map(|kind| &kind.info).find(|info| info.kind == kind && version_of(info) == version)
        else {
            continue;
        };
        let namespace = if info.namespaced { "/namespaces/default" } else { "" };
        let root = if info.group.is_empty() { "/api" } else { "/apis" };
        let request = Request::post(format!("{root}/{version}{namespace}/{}", info.plural))
            .header("authorization", "Bearer admin-token")
            .header("content-type", "application/json");
        // Some depend on each other, and not all can be there at once.
        let _ = real.send(request.body(Bytes::from(object.to_string())).unwrap()).await;
    }
}

fn version_of(info: &flyball_apiserver::registry::ResourceInfo) -> String {
    if info.group.is_empty() { info.version.to_owned() } else { format!("{}/{}", info.group, info.version) }
}

#[tokio::test]
async fn messages_are_those_of_the_real_server() {
    let real = match real::start().await {
        Ok(real) => real,
        Err(why) => return println!("skipped: {why}"),
    };
    create_all(&real).await;
    let (mut compared, mut kinds_seen, mut differing) = (0, 0, Vec::new());
    for kind in kinds::catalog() {
        let info = &kind.info;
        if info.verbs == Verbs::CreateOnly {
            continue;
        }
        let version = version_of(info);
        let root = if info.group.is_empty() { "/api" } else { "/apis" };
        let path = format!("{root}/{version}/{}", info.plural);
        let Some(message) = protobuf::Message::of_kind(&version, info.kind) else { continue };
        let (code, message_list) = get(&real, &path, protobuf::MEDIA_TYPE).await;
        let (_, json) = get(&real, &path, "application/json").await;
        if code != 200 {
            continue;
        }
        let json: Value = serde_json::from_slice(&json).unwrap();
        let envelope = Envelope::open(&message_list).unwrap();
        let list = List::open(envelope.raw).unwrap();
        let items = json["items"].as_array().unwrap();
        // A list that has changed in between is compared as far as it has not.
        kinds_seen += usize::from(!items.is_empty());
        for (item, raw) in items.iter().zip(&list.items) {
            let ours = protobuf::encode(message, item).unwrap();
            compared += 1;
            if ours != *raw && shown_item(message, raw) == *item {
                differing.push(format!("{version} {} {}", info.kind, item["metadata"]["name"]));
            }
        }
        let whole = protobuf::encode_list(&json["metadata"], list.items.iter().copied()).unwrap();
        if list.resource_version == json["metadata"]["resourceVersion"] {
            let ours = protobuf::envelope(&version, &format!("{}List", info.kind), &whole);
            if ours != message_list {
                differing.push(format!("the list of {path}"));
            }
        }
    }
    println!("{compared} objects of {kinds_seen} kinds");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(compared > 150 && kinds_seen > 40, "only {compared} objects of {kinds_seen} kinds");
}

fn shown_item(message: &'static protobuf::Message, raw: &[u8]) -> Value {
    serde_json::from_str(&protobuf::to_json(message, raw).unwrap()).unwrap()
}
