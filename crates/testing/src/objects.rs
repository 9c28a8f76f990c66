//! Objects as a test names and writes them.

use flyball_api::{Key, ResourceType};
use flyball_client::{Client, DeleteOptions, Discovery, Patch, Propagation};
use serde::Deserialize as _;
use serde_json::Value;

use crate::Error;

/// The owner of the fields that a test applies.
const MANAGER: &str = "flyball-testing";
const DEFAULT: &str = "default";

/// The documents of a text in YAML or JSON; empty ones are left out.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(Error::Manifest)?;
        match value {
            Value::Null => {}
            Value::Object(ref object) if object.get("items").is_some_and(Value::is_array) => {
                found.extend(value["items"].as_array().into_iter().flatten().cloned());
            }
            other => found.push(other),
        }
    }
    Ok(found)
}

/// Applies one object; what the server has then.
pub(crate) async fn apply(client: &Client, object: Value) -> Result<Value, Error> {
    let text =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(version), Some(kind), Some(name)) =
        (text("/apiVersion"), text("/kind"), text("/metadata/name"))
    else {
        return Err(Error::NoObject { what: object.to_string() });
    };
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let served = client.discover().await.map_err(discovery_failed)?;
    let found = served.resources.iter().map(|found| &found.resource).find(|resource| {
        resource.kind == kind && resource.group == group && resource.api_version() == version
    });
    let resource = found.ok_or_else(|| Error::UnknownKind { kind: format!("{version} {kind}") })?;
    let namespace = text("/metadata/namespace").unwrap_or(DEFAULT);
    let key = key(resource, namespace, name);
    let doing = format!("apply {kind} {key}");
    let patch = Patch::Apply { manager: MANAGER.into(), force: true, object };
    let applied = client.patch_dynamic(resource, &key, None, &patch).await;
    applied.map_err(|source| Error::Request { doing, source })
}

pub(crate) fn discovery_failed(source: flyball_client::Error) -> Error {
    Error::Request { doing: "discover the kinds of the cluster".to_owned(), source }
}

fn key(resource: &ResourceType, namespace: &str, name: &str) -> Key {
    match resource.namespaced {
        true => Key::new(namespace, name),
        false => Key::cluster(name),
    }
}

/// An object that a test names by its kind, as for kubectl, and by `name` or `namespace/name`.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) resource: ResourceType,
    pub(crate) key: Key,
}

impl Named {
    pub(crate) async fn find(client: &Client, kind: &str, name: &str) -> Result<(Self, Discovery), Error> {
        let served = client.discover().await.map_err(discovery_failed)?;
        let resource = served.named(kind).ok_or_else(|| Error::UnknownKind { kind: kind.to_owned() })?;
        let (namespace, name) = name.split_once('/').unwrap_or((DEFAULT, name));
        let key = key(resource, namespace, name);
        Ok((Self { resource: resource.clone(), key }, served))
    }

    /// The object, if it exists.
    pub(crate) async fn get(&self, client: &Client) -> Result<Option<Value>, Error> {
        match client.get_dynamic(&self.resource, &self.key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(source) => Err(Error::Request { doing: self.doing("get"), source }),
        }
    }

    /// Deletes the object, and what it owns; whether it existed.
    pub(crate) async fn delete(&self, client: &Client) -> Result<bool, Error> {
        let options = DeleteOptions::default().propagation(Propagation::Background);
        match client.delete_dynamic(&self.resource, &self.key, &options).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(source) => Err(Error::Request { doing: self.doing("delete"), source }),
        }
    }

    pub(crate) fn doing(&self, what: &str) -> String {
        format!("{what} {} {}", self.resource.kind, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_hold_several_documents_and_lists() {
        let text = "a: 1\n---\n\n---\nkind: List\nitems: [{a: 2}, {a: 3}]\n";
        let found: Vec<_> = documents(text).unwrap().iter().map(|document| document["a"].clone()).collect();
        assert_eq!(found, [1, 2, 3]);
        let error = format!("{:?}", documents("a: [").unwrap_err());
        assert!(error.starts_with("a manifest cannot be read: "), "{error}");
    }
}
