//! The parameters of a policy: the objects that a binding refers to.

use serde_json::Value;

use crate::meta;
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::server::Inner;
use crate::store::Key;

/// The objects to evaluate a policy with, once each; `None` for once without parameters. `namespace` is that of the request.
pub(super) fn collect(
    server: &Inner,
    kind: Option<&Value>,
    reference: Option<&Value>,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let resource = resource(server, kind)?;
    let given = reference["namespace"].as_str().unwrap_or_default();
    let namespace = match (resource.namespaced, given, namespace) {
        (true, "", "") => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", namespace) => namespace,
        (true, given, _) => given,
        (false, "", _) => "",
        (false, ..) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_owned());
        }
    };
    let found = match reference["name"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => {
            let entry = server.store.get(&resource.shelf, &Key::new(namespace, name));
            entry.into_iter().map(|entry| entry.value()).collect()
        }
        None => selected(server, &resource, reference, namespace),
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let shown = |object: Value| if resource.converts() { resource.strategy.serve(object) } else { object };
    Ok(found.into_iter().map(|object| Some(shown(object))).collect())
}

fn selected(server: &Inner, resource: &Resource, reference: &Value, namespace: &str) -> Vec<Value> {
    let Some(selector) = LabelSelector::from_object(&reference["selector"]) else { return Vec::new() };
    let within = resource.namespaced.then_some(namespace);
    let entries = server.store.all(&resource.shelf, within);
    entries.iter().filter(|entry| selector.matches(&entry.facets.labels)).map(|entry| entry.value()).collect()
}

/// The resource of a `paramKind`.
pub(super) fn resource(server: &Inner, kind: &Value) -> Result<std::sync::Arc<Resource>, String> {
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let found = server.catalog.by_kind(text("apiVersion"), text("kind"));
    found.ok_or_else(|| {
        let (version, kind) = (text("apiVersion"), text("kind"));
        let shown = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        format!("failed to find resource referenced by paramKind: '{shown}, Kind={kind}'")
    })
}

/// The Namespace of a request as expressions see it.
pub(super) fn namespace(server: &Inner, name: &str) -> Option<Value> {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let shelf = crate::store::ShelfId::new("", "namespaces");
    let mut object = server.store.get(&shelf, &Key::new("", name))?.value();
    meta::of(&mut object).retain(|field, _| METADATA.contains(&field.as_str()));
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| ["metadata", "spec", "status"].contains(&field.as_str()));
    }
    Some(object)
}
