//! Whether aggregated servers are available: their service exists, listens, has endpoints, and answers. The outcome is the
//! `Available` condition, with upstream's reasons.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::proxy::{self, Asked};
use super::remote::Remote;
use super::{discovery, shelf};
use crate::life::Ops;
use crate::server::Inner;
use crate::standstill::Standstill;
use crate::store::{Key, ShelfId};

/// How often a server that passed is checked again.
pub(super) const AGAIN: Duration = Duration::from_secs(30);
const FIRST_BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);

/// How an APIService was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// This server serves it: there is nothing to check again.
    Local,
    Passed,
    Failed,
}

/// How long after a number of failures in a row the next check follows.
pub(super) fn backoff(failures: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1 << failures.clamp(1, 16).saturating_sub(1)).min(LONGEST_BACKOFF)
}

/// A condition without its time.
#[derive(Debug, PartialEq)]
struct Found {
    is_available: bool,
    reason: &'static str,
    message: String,
}

impl Found {
    fn missing(reason: &'static str, message: String) -> Self {
        Self { is_available: false, reason, message }
    }
}

/// Whether the condition says already that this server serves the version.
pub(super) fn is_local(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Available" && condition["status"] == "True" && condition["reason"] == "Local"
    })
}

/// Another task may begin when this one ends otherwise than by having nothing to do, as when its runtime ends.
struct Watching {
    server: Weak<Inner>,
    is_over: bool,
}

impl Drop for Watching {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(server) = self.server.upgrade()
        {
            server.aggregation.unwatched();
        }
    }
}

/// Checks whatever is due until nothing is registered, or the server is gone.
pub(super) async fn run(server: Weak<Inner>, changed: Arc<Notify>) {
    let mut watching = Watching { server: Weak::clone(&server), is_over: false };
    loop {
        let Some(alive) = server.upgrade() else { return };
        let Some((due, next)) = alive.aggregation.due() else {
            watching.is_over = true;
            return;
        };
        for name in &due {
            let outcome = one(&alive, name).await;
            alive.aggregation.checked(name, outcome);
        }
        drop(alive);
        if due.is_empty() {
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
    }
}

async fn one(server: &Arc<Inner>, name: &str) -> Outcome {
    let Some(entry) = server.store.get(&shelf(), &Key::new("", name)) else { return Outcome::Local };
    let Some(remote) = Remote::read(&entry.value()) else {
        let message = "Local APIServices are always available".to_owned();
        write(server, name, &Found { is_available: true, reason: "Local", message });
        return Outcome::Local;
    };
    let found = check(server, &remote).await;
    write(server, name, &found);
    if !found.is_available {
        server.aggregation.learn(&remote, None);
        return Outcome::Failed;
    }
    match discovery::resources(server, &remote).await {
        Ok(resources) => {
            server.aggregation.learn(&remote, Some(resources));
            Outcome::Passed
        }
        Err(error) => {
            tracing::debug!(name, error, "an aggregated server does not say what it serves");
            server.aggregation.learn(&remote, None);
            Outcome::Failed
        }
    }
}

async fn check(server: &Arc<Inner>, remote: &Remote) -> Found {
    if let Err(missing) = endpoints(server, remote) {
        return missing;
    }
    match ask(server, remote).await {
        Ok(()) => Found { is_available: true, reason: "Passed", message: "all checks passed".to_owned() },
        Err(why) => Found::missing("FailedDiscoveryCheck", why),
    }
}

/// Whether the objects are there that lead to the server.
fn endpoints(server: &Inner, remote: &Remote) -> Result<(), Found> {
    let Key { namespace, name } = &remote.service;
    let service = server.store.get(&ShelfId::new("", "services"), &remote.service);
    let Some(service) = service.map(|entry| entry.value()) else {
        let message = format!("service/{name} in {:?} is not present", namespace.as_str());
        return Err(Found::missing("ServiceNotFound", message));
    };
    if service["spec"]["type"] != "ClusterIP" {
        return Ok(());
    }
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(port) = ports.find(|port| port["port"] == remote.port) else {
        let message =
            format!("service/{name} in {:?} is not listening on port {}", namespace.as_str(), remote.port);
        return Err(Found::missing("ServicePortError", message));
    };
    let port = port["name"].as_str().unwrap_or_default();
    let slices = server.store.all(&ShelfId::new("discovery.k8s.io", "endpointslices"), Some(namespace));
    let own = slices.iter().filter(|slice| {
        slice.facets.labels.iter().any(|(key, value)| key == "kubernetes.io/service-name" && value == name)
    });
    let own: Vec<Value> = own.map(|entry| entry.value()).collect();
    if own.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {:?}", namespace.as_str());
        return Err(Found::missing("EndpointsNotFound", message));
    }
    if own.iter().any(|slice| is_ready(slice, port)) {
        return Ok(());
    }
    let message = format!(
        "endpointslices for service/{name} in {:?} have no addresses with port name {port:?}",
        namespace.as_str()
    );
    Err(Found::missing("MissingEndpoints", message))
}

fn is_ready(slice: &Value, port: &str) -> bool {
    let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    list("endpoints").iter().any(|endpoint| endpoint["conditions"]["ready"] != false)
        && list("ports").iter().any(|given| given["name"] == port && given["port"].is_u64())
}

/// Whether the server answers to a request for the version.
async fn ask(server: &Arc<Inner>, remote: &Remote) -> Result<(), String> {
    let place = remote.place(server)?;
    let url = format!("https://{}{}", authority(&place), remote.path());
    let asked = Asked { path: &remote.path(), accept: None };
    let _standstill = server.options.virtual_time.then(|| Standstill::begin(Some(PATIENCE)));
    let answered = tokio::time::timeout(PATIENCE, proxy::ask(server, remote, &place, &asked)).await;
    let failed = |why: String| Err(format!("failing or missing response from {url}: {why}"));
    match answered {
        Ok(Ok(answer)) if (200..300).contains(&answer.code) => Ok(()),
        Ok(Ok(answer)) => failed(format!("bad status from {url}: {}", answer.code)),
        Ok(Err(why)) => failed(format!("Get {url:?}: {why}")),
        Err(_) => failed(format!(
            "Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )),
    }
}

fn authority((host, port): &(String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Writes the condition, unless it is there. Its time is that of the last change of the status.
fn write(server: &Inner, name: &str, found: &Found) {
    let Some(resource) = server.catalog.get(super::GROUP, "v1", super::PLURAL) else { return };
    let user = crate::bootstrap::system_user();
    let mut ops = Ops::internal(server, &resource, &user);
    let key = Key::new("", name);
    let status = if found.is_available { "True" } else { "False" };
    let is_told = ops.get(&key).is_ok_and(|entry| {
        let object = entry.value();
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["type"] == "Available"
                && condition["status"] == status
                && condition["reason"] == found.reason
                && condition["message"] == found.message
        })
    });
    if is_told {
        return;
    }
    let now = server.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let written = ops.rewrite(&key, |object| {
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut fresh = json!({
            "type": "Available", "status": status, "reason": found.reason, "message": found.message,
            "lastTransitionTime": now,
        });
        match conditions.iter_mut().find(|condition| condition["type"] == "Available") {
            Some(old) => {
                if old["status"] == status {
                    fresh["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                *old = fresh;
            }
            None => conditions.push(fresh),
        }
        object["status"]["conditions"] = Value::Array(conditions);
        Ok(())
    });
    // It was deleted meanwhile.
    if let Err(error) = written {
        tracing::debug!(
            name,
            error = error.message,
            "an APIService is gone before its condition was written"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_repeated_less_and_less_often() {
        let table = [(1, 5), (2, 10), (5, 80), (13, 20_480), (14, 30_000), (400, 30_000)];
        for (failures, millis) in table {
            assert_eq!(backoff(failures), Duration::from_millis(millis), "{failures}");
        }
    }

    #[test]
    fn endpoints_count_with_a_ready_address_and_the_port() {
        let slice = |ready: Value, name: &str| {
            json!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
                   "ports": [{"name": name, "port": 443}]})
        };
        #[rustfmt::skip]
        let table = [
            (slice(json!(true), ""),      true),
            (slice(Value::Null, ""),      true),
            (slice(json!(false), ""),     false),
            (slice(json!(true), "other"), false),
            (json!({"endpoints": [], "ports": [{"name": "", "port": 443}]}), false),
        ];
        for (slice, want) in table {
            assert_eq!(is_ready(&slice, ""), want, "{slice}");
        }
    }
}
