//! What simulated users, nodes and observers share: the ledger, and a client that retries while the server is unavailable.

use std::sync::Arc;
use std::time::Duration;

use flyball_sim::api::{Api, Call, Content};
use flyball_sim::client::ApiClient;
use futures::StreamExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ledger::Ledger;

/// Delay before a request to an unavailable server is repeated.
const AGAIN: Duration = Duration::from_millis(300);

/// The cluster as its users see it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) api: Arc<Api>,
    pub(super) client: Arc<dyn ApiClient>,
    pub(super) ledger: Arc<Ledger>,
    /// When users stop making changes.
    pub(super) until: Instant,
}

impl Shared {
    /// Whether there is time for another change.
    pub(super) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Creates an object, retrying as long as needed; "already exists" means that an earlier response was lost.
    pub(super) async fn create(&self, collection: &str, object: &Value) {
        self.insist(Method::POST, collection, object, Content::Json, &[409]).await;
    }

    /// Merges a change into the object at `path`; `false` if it is not there.
    pub(super) async fn merge(&self, path: &str, change: &Value) -> bool {
        self.insist(Method::PATCH, path, change, Content::MergePatch, &[404]).await.0 < 300
    }

    /// Deletes the object at `path` with background propagation.
    pub(super) async fn delete(&self, path: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        self.insist(Method::DELETE, path, &options, Content::Json, &[404, 409]).await;
    }

    /// The object at `path`, if it is there.
    pub(super) async fn get(&self, path: &str) -> Option<Value> {
        let (code, object) = self.insist(Method::GET, path, &Value::Null, Content::Json, &[404]).await;
        (code == 200).then_some(object)
    }

    /// All objects of a collection. Items carry their kind.
    pub(super) async fn list(&self, resource: &str) -> Vec<Value> {
        loop {
            match self.api.list_named(resource, None, None).await {
                Ok(items) => return items,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Sends a request until the response is a success or one of `tolerated`.
    async fn insist(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        content: Content,
        tolerated: &[u16],
    ) -> (u16, Value) {
        loop {
            let call = Call::new(method.clone(), path).tolerate(tolerated);
            let call = if body.is_null() { call } else { call.body(body, content) };
            match self.api.send(call).await {
                Ok(answer) => return answer,
                Err(error) => {
                    // A restarting server refuses or closes connections; any other error is a bug in this program.
                    if matches!(error.code(), Some(400 | 405 | 422)) {
                        self.ledger.violation(format!("{method} {path} was refused: {error}"));
                        return (error.code().unwrap_or_default(), Value::Null);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Calls `see` for every state of the objects of a collection, with `false` when the object is deleted, until the future is
    /// dropped. A null announces that all objects are listed again. Changes while the server is unavailable may be missed.
    pub(super) async fn follow(&self, collection: &str, mut see: impl FnMut(&Value, bool)) {
        loop {
            if let Some(mut list) = self.get(collection).await {
                let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                if let Value::Array(items) = list["items"].take() {
                    see(&Value::Null, true);
                    items.iter().for_each(|item| see(item, true));
                }
                let path = format!("{collection}?watch=1&resourceVersion={version}");
                if let Ok(mut events) = self.client.watch(&path).await {
                    while let Some(event) = events.next().await {
                        match event["type"].as_str() {
                            Some("ADDED" | "MODIFIED") => see(&event["object"], true),
                            Some("DELETED") => see(&event["object"], false),
                            _ => break,
                        }
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
