//! What an aggregated server serves, for the documents of discovery.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::proxy::{self, Asked};
use super::remote::Remote;
use crate::server::Inner;
use crate::standstill::Standstill;

const PATIENCE: Duration = Duration::from_secs(5);
const ACCEPTED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The resources of a version, as aggregated discovery shows them. Servers that have only the plain form are asked for that.
pub(super) async fn resources(server: &Arc<Inner>, remote: &Remote) -> Result<Vec<Value>, String> {
    let place = remote.place(server)?;
    let _standstill = server.options.virtual_time.then(|| Standstill::begin(Some(PATIENCE)));
    let asked = async |path: &str, accept: &str| {
        let asked = Asked { path, accept: Some(accept) };
        let answered = tokio::time::timeout(PATIENCE, proxy::ask(server, remote, &place, &asked)).await;
        answered.unwrap_or_else(|_| Err("request timed out".to_owned()))
    };
    let all = asked("/apis", ACCEPTED).await?;
    if all.code == 200 && all.media.contains("as=APIGroupDiscoveryList") {
        let document: Value = serde_json::from_slice(&all.body).map_err(|error| error.to_string())?;
        return Ok(of_version(&document, remote));
    }
    let path = remote.path();
    let plain = asked(&path, "application/json").await?;
    if plain.code != 200 {
        return Err(format!("failed to download discovery for {path}: status {}", plain.code));
    }
    let list: Value = serde_json::from_slice(&plain.body).map_err(|error| error.to_string())?;
    Ok(from_plain(&list, remote))
}

fn of_version(document: &Value, remote: &Remote) -> Vec<Value> {
    let items = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let group =
        items(document, "items").into_iter().find(|group| group["metadata"]["name"] == remote.group.as_str());
    let versions = group.map(|group| items(&group, "versions")).unwrap_or_default();
    let version = versions.into_iter().find(|version| version["version"] == remote.version.as_str());
    version.map(|version| items(&version, "resources")).unwrap_or_default()
}

/// Converts an `APIResourceList`.
fn from_plain(list: &Value, remote: &Remote) -> Vec<Value> {
    let listed = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out: Vec<Value> = Vec::new();
    let kind = |entry: &Value| {
        let or = |field: &str, usual: &str| match entry[field].as_str() {
            None | Some("") => usual.to_owned(),
            Some(given) => given.to_owned(),
        };
        json!({"group": or("group", &remote.group), "version": or("version", &remote.version), "kind": entry["kind"]})
    };
    let mains = listed.iter().filter(|entry| entry["name"].as_str().is_some_and(|name| !name.contains('/')));
    for entry in mains {
        let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let mut resource = json!({
            "resource": entry["name"], "responseKind": kind(entry), "scope": scope,
            "singularResource": entry["singularName"].as_str().unwrap_or_default(), "verbs": entry["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if entry[field].is_array() {
                resource[field] = entry[field].clone();
            }
        }
        out.push(resource);
    }
    for entry in listed {
        let Some((main, sub)) = entry["name"].as_str().and_then(|name| name.split_once('/')) else {
            continue;
        };
        let Some(resource) = out.iter_mut().find(|resource| resource["resource"] == main) else { continue };
        if !resource["subresources"].is_array() {
            resource["subresources"] = json!([]);
        }
        if let Some(subs) = resource["subresources"].as_array_mut() {
            subs.push(json!({"subresource": sub, "responseKind": kind(entry), "verbs": entry["verbs"]}));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lists_become_resources_with_subresources() {
        let remote = Remote::read(&json!({
            "metadata": {"name": "v1.g.io"}, "spec": {"group": "g.io", "version": "v1", "service": {"name": "s"}}
        }));
        let list = json!({"resources": [
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"], "shortNames": ["th"]},
            {"name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale",
             "verbs": ["update"]},
        ]});
        assert_eq!(
            Value::Array(from_plain(&list, &remote.unwrap())),
            json!([{
                "resource": "things", "singularResource": "thing", "scope": "Namespaced", "verbs": ["get"], "shortNames": ["th"],
                "responseKind": {"group": "g.io", "version": "v1", "kind": "Thing"},
                "subresources": [{"subresource": "scale", "verbs": ["update"],
                                  "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}],
            }])
        );
    }
}
