//! Load for a controller manager: many objects at once, cheap counts, and waiting with a deadline.

use std::time::Duration;

use anyhow::bail;
use futures::TryStreamExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Call, Content, Error};

/// The limit on concurrent requests.
const AT_ONCE: usize = 32;
const LOOK: Duration = Duration::from_millis(100);

/// One request of a load: method, path and body.
pub struct Request {
    /// `POST`, `PATCH` or `DELETE`.
    pub method: Method,
    pub path: String,
    pub body: Value,
}

impl Request {
    /// Creates an object in the collection at `path`.
    pub fn create(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), body }
    }

    /// Merges `body` into the object at `path`.
    pub fn merge(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::PATCH, path: path.into(), body }
    }

    /// Deletes the object at `path`; `body` is its DeleteOptions.
    pub fn delete(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::DELETE, path: path.into(), body }
    }
}

/// Sends requests concurrently; the first refusal is returned.
pub async fn send_all(api: &Api, requests: impl IntoIterator<Item = Request>) -> Result<(), Error> {
    futures::stream::iter(requests.into_iter().map(Ok))
        .try_for_each_concurrent(AT_ONCE, |request| async move {
            let content = if request.method == Method::PATCH { Content::MergePatch } else { Content::Json };
            api.send(Call::new(request.method, &request.path).body(&request.body, content)).await.map(drop)
        })
        .await
}

/// How many objects a collection has, without reading them.
pub async fn count(api: &Api, path: &str) -> Result<u64, Error> {
    let page = api.get(&format!("{path}?limit=1")).await?;
    let shown = page["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(shown + page["metadata"]["remainingItemCount"].as_u64().unwrap_or_default())
}

/// How many objects of a collection fulfil a predicate; reads them page by page.
pub async fn count_if(api: &Api, path: &str, fits: impl Fn(&Value) -> bool) -> Result<usize, Error> {
    Ok(list(api, path).await?.iter().filter(|item| fits(item)).count())
}

/// All objects of a collection, page by page.
pub async fn list(api: &Api, path: &str) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let further = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let mut page = api.get(&format!("{path}?limit=500{further}")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return Ok(all),
        }
    }
}

/// Polls until `look` returns `None`; an error after `limit` contains its last result. Returns how long it took.
pub async fn until<F: Future<Output = Result<Option<String>, Error>>>(
    what: &str,
    limit: Duration,
    look: impl Fn() -> F,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    loop {
        let Some(found) = look().await? else { return Ok(start.elapsed()) };
        if start.elapsed() > limit {
            bail!("still waiting after {} s for {what}; last seen: {found}", limit.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The namespace that loads use.
pub const NAMESPACE: &str = "load";

/// Creates the namespace of the load.
pub async fn create_namespace(api: &Api) -> Result<(), Error> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    send_all(api, [Request::create("/api/v1/namespaces", namespace)]).await
}

/// The path of a collection in the load's namespace: `path("apps/v1", "replicasets")`.
pub fn path(group_version: &str, resource: &str) -> String {
    let root = if group_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group_version}") };
    format!("{root}/namespaces/{NAMESPACE}/{resource}")
}

/// A pod template with one container.
pub fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// A workload of apps/v1 with a selector and a template.
pub fn workload(kind: &str, name: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, "main"),
        },
    })
}
