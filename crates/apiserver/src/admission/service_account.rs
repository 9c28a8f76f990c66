//! ServiceAccount: every pod runs as an existing account, and has a volume with its token.

use serde_json::{Value, json};

use super::forbid;
use crate::error::ApiError;
use crate::life::Ops;
use crate::meta;
use crate::store::{Key, ShelfId};

const MIRROR: &str = "kubernetes.io/config.mirror";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const PREFIX: &str = "kube-api-access-";
const TOKEN_SECONDS: i64 = 3607;

pub(super) fn inject(ops: &Ops<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return Ok(());
    }
    let namespace = meta::text(pod, "namespace").to_owned();
    let name = match pod["spec"]["serviceAccountName"].as_str() {
        None | Some("") => "default".to_owned(),
        Some(name) => name.to_owned(),
    };
    let account = ops
        .server
        .store
        .get(&ShelfId::new("", "serviceaccounts"), &Key::new(namespace.as_str(), name.as_str()));
    let Some(account) = account.map(|entry| entry.value()) else {
        let why =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(forbid(ops, pod, &why));
    };
    let wants_token = pod["spec"]["automountServiceAccountToken"]
        .as_bool()
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    let secrets = account["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    let spec = meta::child(pod, "spec");
    spec.insert("serviceAccountName".to_owned(), json!(name));
    spec.insert("serviceAccount".to_owned(), json!(name));
    if !secrets.is_empty() && spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        spec.insert("imagePullSecrets".to_owned(), json!(secrets));
    }
    if wants_token {
        mount_token(ops, pod);
    }
    Ok(())
}

fn mount_token(ops: &Ops<'_>, pod: &mut Value) {
    let named = |volume: &&Value| volume["name"].as_str().is_some_and(|name| name.starts_with(PREFIX));
    let existing = pod["spec"]["volumes"].as_array().into_iter().flatten().find(named);
    let existing = existing.and_then(|volume| volume["name"].as_str()).map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| meta::generate_name(&mut *ops.server.rng.lock(), PREFIX));
    let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
    let mut mounted = false;
    let spec = meta::child(pod, "spec");
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            container["volumeMounts"] = mounts.into_iter().chain([mount.clone()]).collect();
            mounted = true;
        }
    }
    if mounted && existing.is_none() {
        let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}});
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if !volumes.is_array() {
            *volumes = json!([]);
        }
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.push(volume);
        }
    }
}
