//! Custom resources: definitions become resources, with a schema that prunes, defaults and validates.

mod columns;
pub(crate) mod conversion;
mod definition;
pub(crate) mod rules;
mod schema;
mod validate;

use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::life::{DeleteOptions, Ops, at_once};
use crate::meta;
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Key, ShelfId};

pub(crate) use definition::Definition;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Serves the definitions that are in the store.
pub(crate) fn load(server: &Inner) {
    for entry in server.store.all(&ShelfId::new(GROUP, PLURAL), None) {
        changed(server, &entry.key);
    }
}

/// A definition has been written or removed.
pub(crate) fn changed(server: &Inner, key: &Key) {
    let stored = server.store.get(&ShelfId::new(GROUP, PLURAL), key).map(|entry| entry.value());
    let Some(object) = stored else {
        let gone = server.catalog.all().into_iter().find(|r| is_of(r, key));
        server.catalog.replace(|resource| is_of(resource, key), Vec::new());
        if let Some(gone) = gone {
            server.store.drop_shelf(&gone.shelf);
        }
        return;
    };
    if !is_established(&object) {
        establish(server, key);
        return; // the write has brought us here again
    }
    let fresh = definition::resources(&object);
    let before = selectable(server, key);
    server.catalog.replace(|resource| is_of(resource, key), fresh);
    // What the labels and selectable fields of objects are was not known when the store was opened, or has changed. This parses all
    // of them under the store's lock, so not at each write of a status.
    if before != selectable(server, key) {
        for resource in server.catalog.all().into_iter().filter(|resource| is_of(resource, key)) {
            server.store.index_again(&resource.shelf, |object| resource.facets(object));
        }
    }
    if meta::is_deleting(&object) {
        clean_up(server, key, &object);
    }
}

/// An object of a custom resource is gone; its definition may be waiting for that.
pub(crate) fn instance_gone(server: &Inner, resource: &Resource) {
    let Some(custom) = &resource.custom else { return };
    let key = Key::new("", custom.name.as_str());
    let stored = server.store.get(&ShelfId::new(GROUP, PLURAL), &key);
    if let Some(object) = stored.map(|entry| entry.value()).filter(meta::is_deleting)
        && server.store.len(&resource.shelf) == 0
    {
        clean_up(server, &key, &object);
    }
}

/// The selectable fields of each version that is served, by the definition as it is known.
fn selectable(server: &Inner, key: &Key) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let all = server.catalog.all();
    let of = all.iter().filter(|resource| is_of(resource, key));
    of.filter_map(|resource| {
        Some((resource.version.clone(), resource.custom.as_ref()?.selectable_fields.clone()))
    })
    .collect()
}

fn is_of(resource: &Resource, key: &Key) -> bool {
    resource.custom.as_ref().is_some_and(|custom| custom.name == key.name)
}

fn is_established(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
        && object["status"]["acceptedNames"] == object["spec"]["names"]
}

fn with_resource(server: &Inner, act: impl FnOnce(&mut Ops<'_>)) {
    let Some(resource) = server.catalog.get(GROUP, "v1", PLURAL) else { return };
    let user = crate::bootstrap::system_user();
    act(&mut Ops::internal(server, &resource, &user));
}

/// Accepts the names and writes the status.
fn establish(server: &Inner, key: &Key) {
    let now = server.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    with_resource(server, |ops| {
        let _ = ops.rewrite(key, |object| {
            let names = object["spec"]["names"].clone();
            let versions = object["spec"]["versions"].as_array().into_iter().flatten();
            let stored = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
            let mut all: Vec<Value> = object["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
            for version in stored {
                if !all.contains(&version) {
                    all.push(version);
                }
            }
            let condition = |kind: &str, reason: &str, message: &str| {
                json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now})
            };
            object["status"] = json!({
                "acceptedNames": names, "storedVersions": all,
                "conditions": [
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
                ],
            });
            Ok(())
        });
    });
}

/// Deletes all objects of a definition that is being deleted, then removes its finalizer.
fn clean_up(server: &Inner, key: &Key, object: &Value) {
    let of = server.catalog.all().into_iter().find(|resource| is_of(resource, key) && !resource.converts());
    let user = crate::bootstrap::system_user();
    if let Some(resource) = of {
        let mut ops = Ops::internal(server, &resource, &user);
        for entry in server.store.all(&resource.shelf, None) {
            if !meta::is_deleting(&entry.value()) {
                // Objects with finalizers stay; this is called again when they are gone.
                let _ = at_once(ops.delete(&entry.key, &DeleteOptions::default()));
            }
        }
        if server.store.len(&resource.shelf) > 0 {
            return;
        }
    }
    if meta::finalizers(object).contains(&CLEANUP) {
        with_resource(server, |ops| {
            let target = crate::life::Target { repeatable: true, ..crate::life::Target::default() };
            let change = |_: &mut Ops<'_>, old: Option<&Value>| {
                let mut object = old.cloned().unwrap_or_default();
                let kept = meta::finalizers(&object)
                    .into_iter()
                    .filter(|f| *f != CLEANUP)
                    .map(str::to_owned)
                    .collect();
                meta::set_finalizers(&mut object, kept);
                Ok(object)
            };
            let _ = at_once(ops.update(key, target, change));
        });
    }
}
