//! CustomResourceDefinitions: defaults, stored versions and validation.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::apps::prints;
use super::json::Json;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, Strategy};

pub(super) struct Definition;

/// Derives the singular name and the list kind from the kind. The default conversion strategy is `None`.
pub(super) fn default_definition(definition: &mut Value) {
    let kind = definition.text("spec.names.kind").to_owned();
    if !kind.is_empty() {
        definition.or_put("spec.names.singular", kind.to_lowercase());
        definition.or_put("spec.names.listKind", format!("{kind}List"));
    }
    definition.or_put("spec.conversion", json!({"strategy": "None"}));
    if definition.items("status.storedVersions").is_empty() {
        add_stored_version(definition);
    }
}

/// Adds the storage version to `status.storedVersions`, since objects may be stored in it from now on.
fn add_stored_version(definition: &mut Value) {
    let storage = definition.items("spec.versions").iter().find(|version| version.flag("storage"));
    let Some(name) = storage.map(|version| version.at("name").clone()) else { return };
    definition.or_put("status.storedVersions", json!([]));
    if let Some(Value::Array(stored)) = definition.at_mut("status.storedVersions")
        && !stored.contains(&name)
    {
        stored.push(name);
    }
}

impl Strategy for Definition {
    fn prepare_create(&self, _: &Cx<'_>, definition: &mut Value) {
        definition.put("status", json!({}));
        add_stored_version(definition);
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, _: &Value) {
        add_stored_version(new);
    }

    fn validate_create(&self, definition: &Value) -> Vec<Cause> {
        validate::extension::definition(definition)
    }

    prints!(print::NAME_AND_CREATED);
}
