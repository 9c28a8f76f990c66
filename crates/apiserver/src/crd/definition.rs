//! One served version of a definition: its resource, and how its objects behave.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::{SmolStr, format_smolstr};

use super::columns::{Column, columns_of};
use super::conversion::Conversion;
use super::rules::{Findings, Rules};
use super::schema;
use super::validate;
use crate::discovery::Priority;
use crate::invalid::{Cause, Fault};
use crate::kinds;
use crate::registry::{ScalePaths, Strategy, Subresource, Verbs};
use crate::resource::Resource;
use crate::store::ShelfId;

/// One version of a definition.
pub(crate) struct Definition {
    /// Name of the definition, `things.example.com`.
    pub(crate) name: SmolStr,
    pub(crate) schema: Value,
    /// The paths that field selectors may name.
    pub(crate) selectable_fields: Vec<SmolStr>,
    /// The webhook that converts objects, if there is one.
    pub(crate) conversion: Option<Arc<Conversion>>,
    rules: Option<Rules>,
    columns: Vec<Column>,
    scale: Option<(String, String, String)>,
}

impl Definition {
    /// Drops the fields that the schema does not have, and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        if let Some(meta) = kinds::schema::builtin().types().find(|t| t.model.ends_with("meta.v1.ObjectMeta"))
            && let Some(metadata) = object.get_mut("metadata")
        {
            let found = kinds::shape(kinds::schema::builtin(), meta, metadata).unwrap_or_default();
            unknown.extend(found.into_iter().map(|path| format!("metadata.{path}")));
        }
        schema::prune_root(object, &self.schema, &mut unknown);
        unknown
    }

    /// Fills in the schema's defaults.
    pub(crate) fn default(&self, object: &mut Value) {
        schema::default(object, &self.schema);
    }

    /// Validates a new object, or a change of one.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Findings {
        let mut causes = Vec::new();
        validate::root(object, &self.schema, &mut causes);
        let Some(rules) = &self.rules else { return Findings { causes, ..Findings::default() } };
        let blocks = |cause: &Cause| {
            matches!(
                cause.fault,
                Fault::NotSupported | Fault::Required | Fault::TooLong | Fault::TooMany | Fault::TypeInvalid
            )
        };
        if causes.iter().any(blocks) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            causes.push(Cause::invalid("<nil>", Value::Null, detail));
            return Findings { causes, ..Findings::default() };
        }
        let mut findings = rules.run(object, old);
        findings.causes.splice(0..0, causes);
        findings
    }

    /// The paths that `/scale` reads and writes.
    pub(crate) fn scale_paths(&self) -> ScalePaths<'_> {
        match &self.scale {
            Some((spec, status, selector)) => ScalePaths { spec, status, selector },
            None => ScalePaths::DEFAULT,
        }
    }

    /// Columns of `kubectl get`.
    pub(crate) fn columns(&self) -> Vec<Value> {
        let name =
            json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
        std::iter::once(name).chain(self.columns.iter().map(Column::definition)).collect()
    }

    /// One row of `kubectl get`.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        std::iter::once(name).chain(self.columns.iter().map(|column| column.cell(object, now))).collect()
    }
}

/// How custom objects behave. Unless a webhook converts them, all versions have the same content.
struct Custom {
    /// Objects stay in the version of the request until they are stored.
    has_webhook: bool,
    served: SmolStr,
    stored: SmolStr,
    status: bool,
    deprecation: Option<String>,
}

impl Strategy for Custom {
    fn deprecated(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }

    fn to_storage(&self, mut object: Value) -> Value {
        if !self.has_webhook {
            object["apiVersion"] = json!(self.stored);
        }
        object
    }

    fn serve(&self, mut object: Value) -> Value {
        object["apiVersion"] = json!(self.served);
        object
    }

    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        let content = |object: &Value| {
            let mut object = object.clone();
            if let Some(map) = object.as_object_mut() {
                map.remove("metadata");
                if self.status {
                    map.remove("status");
                }
            }
            object
        };
        content(new) != content(old)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// One field of each entry of a list.
fn versioned_list(list: &Value, field: &str) -> Vec<SmolStr> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry[field].as_str())
        .map(SmolStr::from)
        .collect()
}

/// The warning for requests to a deprecated version: the definition's own, or one that names the best newer version.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let full = |name: &str| format!("{}/{name} {}", text(&spec["group"]), text(&spec["names"]["kind"]));
    let name = text(&version["name"]);
    let others = spec["versions"].as_array().into_iter().flatten();
    let usable = others.filter(|other| other["served"] == true && other["deprecated"] != true);
    let newer =
        usable.map(|other| text(&other["name"])).filter(|other| Priority::of(other) > Priority::of(&name));
    Some(match newer.max_by_key(|other| Priority::of(other)) {
        Some(newer) => format!("{} is deprecated; use {}", full(&name), full(&newer)),
        None => format!("{} is deprecated", full(&name)),
    })
}

/// The resources that a definition serves, the stored version first.
pub(super) fn resources(crd: &Value) -> Vec<Resource> {
    let spec = &crd["spec"];
    let text = |value: &Value| SmolStr::from(value.as_str().unwrap_or_default());
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let group = text(&spec["group"]);
    let names = &spec["names"];
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let storage = versions().find(|version| version["storage"] == true).map(|version| text(&version["name"]));
    let stored = format_smolstr!("{group}/{}", storage.clone().unwrap_or_default());
    let conversion = Conversion::read(&spec["conversion"]).map(Arc::new);
    let mut out: Vec<Resource> = versions()
        .filter(|version| version["served"] == true || Some(text(&version["name"])) == storage)
        .map(|version| {
            let served = format_smolstr!("{group}/{}", text(&version["name"]));
            let subs = &version["subresources"];
            let mut subresources = Vec::new();
            if subs["status"].is_object() {
                subresources.push(Subresource::Status);
            }
            if subs["scale"].is_object() {
                subresources.push(Subresource::Scale);
            }
            let pointer = |field: &str| {
                let path = subs["scale"][field].as_str().unwrap_or_default();
                path.replace('.', "/")
            };
            let definition = Definition {
                name: text(&crd["metadata"]["name"]),
                schema: version["schema"]["openAPIV3Schema"].clone(),
                selectable_fields: versioned_list(&version["selectableFields"], "jsonPath"),
                conversion: conversion.clone(),
                rules: Rules::read(&version["schema"]["openAPIV3Schema"]),
                columns: columns_of(version),
                scale: subs["scale"].is_object().then(|| {
                    (pointer("specReplicasPath"), pointer("statusReplicasPath"), pointer("labelSelectorPath"))
                }),
            };
            let status = subresources.contains(&Subresource::Status);
            Resource {
                group: group.clone(),
                version: text(&version["name"]),
                plural: text(&names["plural"]),
                singular: text(&names["singular"]),
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: Verbs::All,
                subresources,
                generation: true,
                shelf: ShelfId::new(group.clone(), text(&names["plural"])),
                stored_version: stored.clone(),
                strategy: Arc::new(Custom {
                    has_webhook: conversion.is_some(),
                    served,
                    stored: stored.clone(),
                    status,
                    deprecation: deprecation(spec, version),
                }),
                shape: None,
                custom: Some(Arc::new(definition)),
            }
        })
        .collect();
    out.sort_by_key(|resource| resource.converts());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deprecated_version_names_the_best_newer_one() {
        let version =
            |name: &str, deprecated: bool| json!({"name": name, "served": true, "deprecated": deprecated});
        let spec = |versions: Vec<Value>| json!({"group": "example.com", "names": {"kind": "Thing"}, "versions": versions});
        let versions = vec![
            version("v1alpha1", true),
            version("v1beta1", false),
            version("v1", false),
            version("v2", true),
        ];
        let old = deprecation(&spec(versions.clone()), &versions[0]);
        assert_eq!(
            old.as_deref(),
            Some("example.com/v1alpha1 Thing is deprecated; use example.com/v1 Thing")
        );
        assert_eq!(
            deprecation(&spec(versions.clone()), &versions[3]).as_deref(),
            Some("example.com/v2 Thing is deprecated")
        );
        assert_eq!(deprecation(&spec(versions.clone()), &versions[2]), None);
        let own = json!({"name": "v1", "deprecated": true, "deprecationWarning": "use a hammer"});
        assert_eq!(deprecation(&spec(versions), &own).as_deref(), Some("use a hammer"));
    }
}
