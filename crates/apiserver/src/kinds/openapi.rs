//! The type table as OpenAPI, from which `kubectl explain` prints, and clients read list keys, patch strategies and supported
//! query parameters. Descriptions are the first sentences of upstream's.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::json::Json;
use super::schema::{Field, ListKind, Patch, Presence, Schema, Shape, Type, TypeId};

/// The two formats differ in the place of definitions and in how references are described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// A kind and where it is served.
#[derive(Debug, Clone)]
pub struct Served<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    pub version: &'a str,
    pub plural: &'a str,
    pub kind: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether objects are stored. Reviews, for example, are not.
    pub stored: bool,
    /// The schema of a custom resource; built-in kinds are looked up.
    pub custom: Option<&'a Value>,
}

/// A document with the given kinds: their schemas, all schemas that these refer to, and their paths.
pub fn document(schema: &Schema, format: Format, kinds: &[Served<'_>]) -> Value {
    let mut writer = Writer { schema, format, wanted: Vec::new(), seen: BTreeSet::new() };
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for served in kinds {
        let version = join(served.group, served.version);
        let name = match (schema.kind(&version, served.kind), served.custom) {
            (_, Some(custom)) => {
                let name = custom_name(served);
                schemas.insert(name.clone(), writer.custom(served, custom));
                name
            }
            (Some(kind), None) => {
                writer.want(kind.id);
                kind.model.to_owned()
            }
            (None, None) => continue,
        };
        self::paths(&mut paths, format, served, &name);
    }
    while let Some(id) = writer.wanted.pop() {
        let kind = schema.get(id);
        let definition = writer.definition(kind);
        schemas.insert(kind.model.to_owned(), definition);
    }
    for (name, scalar) in scalars(format) {
        schemas.insert(name.to_owned(), scalar);
    }
    let info = json!({"title": "Kubernetes", "version": "v1.36.4"});
    match format {
        Format::V2 => json!({"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas}),
        Format::V3 => {
            json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}})
        }
    }
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The types that are not structs.
fn scalars(format: Format) -> [(&'static str, Value); 5] {
    let (quantity, int_or_string) = match format {
        Format::V2 => (json!({"type": "string"}), json!({"type": "string", "format": "int-or-string"})),
        Format::V3 => (
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        ),
    };
    [
        (QUANTITY, quantity),
        (INT_OR_STRING, int_or_string),
        (TIME, json!({"type": "string", "format": "date-time"})),
        (MICRO_TIME, json!({"type": "string", "format": "date-time"})),
        (DURATION, json!({"type": "string"})),
    ]
}

struct Writer<'a> {
    schema: &'a Schema,
    format: Format,
    wanted: Vec<TypeId>,
    seen: BTreeSet<TypeId>,
}

impl Writer<'_> {
    fn want(&mut self, id: TypeId) {
        if self.seen.insert(id) {
            self.wanted.push(id);
        }
    }

    fn definition(&mut self, kind: &Type) -> Value {
        let mut properties = Map::new();
        for field in &kind.fields {
            properties.insert(field.name.to_owned(), self.property(field));
        }
        let mut definition = json!({"type": "object", "description": kind.doc, "properties": properties});
        let required: Vec<&str> = kind.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
        if !required.is_empty() {
            definition.put("required", json!(required));
        }
        if kind.atomic {
            definition.put("x-kubernetes-map-type", "atomic");
        }
        if !kind.kinds.is_empty() {
            let kinds: Vec<Value> = kind.kinds.iter().map(|kind| gvk(kind)).collect();
            definition.put("x-kubernetes-group-version-kind", kinds);
        }
        definition
    }

    fn property(&mut self, field: &Field) -> Value {
        let mut property = self.shape(&field.shape);
        // `$ref` must be the only key, so it is wrapped in `allOf` and the description is put beside that.
        if self.format == Format::V3 && property.has("$ref") {
            property = json!({"allOf": [property]});
            if field.presence == Presence::Always && matches!(field.shape, Shape::Object(_)) {
                property.put("default", json!({}));
            }
        }
        property.put("description", field.doc);
        if !field.values.is_empty() {
            property.put("enum", json!(field.values));
        }
        if let Some(default) = field.default.and_then(|json| serde_json::from_str::<Value>(json).ok()) {
            property.put("default", default);
        }
        if matches!(field.shape, Shape::List(_)) {
            match &field.list {
                ListKind::Atomic => property.put("x-kubernetes-list-type", "atomic"),
                ListKind::Set => property.put("x-kubernetes-list-type", "set"),
                ListKind::Map(keys) => {
                    property.put("x-kubernetes-list-type", "map");
                    property.put("x-kubernetes-list-map-keys", json!(keys));
                }
            }
        }
        if let Some(atomic) = field.atomic {
            property.put("x-kubernetes-map-type", if atomic { "atomic" } else { "granular" });
        }
        let (strategy, key) = match field.patch {
            Patch::Default => return property,
            Patch::MergeList(key) => ("merge", key),
            Patch::MergeListRetainKeys(key) => ("merge,retainKeys", key),
            Patch::RetainKeys => ("retainKeys", ""),
            Patch::Replace => ("replace", ""),
        };
        property.put("x-kubernetes-patch-strategy", strategy);
        if !key.is_empty() {
            property.put("x-kubernetes-patch-merge-key", key);
        }
        property
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::String => json!({"type": "string"}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::Float => json!({"type": "number", "format": "double"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Quantity => self.reference(QUANTITY),
            Shape::IntOrString => self.reference(INT_OR_STRING),
            Shape::Time => self.reference(TIME),
            Shape::MicroTime => self.reference(MICRO_TIME),
            Shape::Duration => self.reference(DURATION),
            Shape::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Shape::Object(id) => {
                self.want(*id);
                self.reference(self.schema.get(*id).model)
            }
            Shape::List(item) => json!({"type": "array", "items": self.shape(item)}),
            Shape::Map(value) => json!({"type": "object", "additionalProperties": self.shape(value)}),
        }
    }

    fn reference(&self, model: &str) -> Value {
        match self.format {
            Format::V2 => json!({"$ref": format!("#/definitions/{model}")}),
            Format::V3 => json!({"$ref": format!("#/components/schemas/{model}")}),
        }
    }

    /// The schema of a custom resource, with the fields that every object has.
    fn custom(&mut self, served: &Served<'_>, schema: &Value) -> Value {
        if let Some(meta) = self.schema.named("meta/v1.ObjectMeta") {
            self.want(meta.id);
        }
        let mut definition = if schema.is_object() { schema.clone() } else { json!({"type": "object"}) };
        definition.or_put("type", "object");
        for field in ["apiVersion", "kind"] {
            definition.or_put(&format!("properties.{field}"), json!({"type": "string"}));
        }
        let metadata = match self.format {
            Format::V2 => self.reference(OBJECT_META),
            Format::V3 => json!({"allOf": [self.reference(OBJECT_META)]}),
        };
        Self::embed(&mut definition, &metadata);
        definition.put("properties.metadata", metadata);
        let kinds = json!([gvk(&format!("{}/{}", join(served.group, served.version), served.kind))]);
        definition.put("x-kubernetes-group-version-kind", kinds);
        definition
    }

    /// Adds `apiVersion`, `kind` and `metadata` to embedded resources.
    fn embed(schema: &mut Value, metadata: &Value) {
        if schema["x-kubernetes-embedded-resource"] == true {
            schema.put("properties.metadata", metadata.clone());
            for field in ["apiVersion", "kind"] {
                schema.put(&format!("properties.{field}"), json!({"type": "string"}));
            }
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get_mut(inner).filter(|inner| inner.is_object()) {
                Self::embed(inner, metadata);
            }
        }
        for property in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            Self::embed(property.1, metadata);
        }
    }
}

/// `io.example.v1.Foo` for Foo of `example.io/v1`.
fn custom_name(served: &Served<'_>) -> String {
    let group: Vec<&str> = served.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), served.version, served.kind)
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `apps/v1/Deployment` or `v1/Pod` in its three parts.
fn gvk(kind: &str) -> Value {
    let (version, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    json!({"group": group, "version": version, "kind": kind})
}

/// The operations on one kind, in enough detail for clients to find the kind and the supported parameters.
fn paths(paths: &mut Map<String, Value>, format: Format, served: &Served<'_>, model: &str) {
    let root = if served.group.is_empty() { "/api" } else { "/apis" };
    let base = format!("{root}/{}", join(served.group, served.version));
    let scoped = if served.namespaced { format!("{base}/namespaces/{{namespace}}") } else { base.clone() };
    let collection = format!("{scoped}/{}", served.plural);
    let kind = gvk(&format!("{}/{}", join(served.group, served.version), served.kind));
    let operation = |action: &str, parameters: &[&str]| operation(format, &kind, action, parameters, model);
    const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
    if !served.stored {
        paths.insert(collection, json!({"post": operation("post", &WRITE)}));
        return;
    }
    let list = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"];
    let many = json!({"get": operation("list", &list), "post": operation("post", &WRITE)});
    paths.insert(collection.clone(), many);
    let patch = ["dryRun", "fieldManager", "fieldValidation", "force"];
    let one = json!({
        "get": operation("get", &[]),
        "put": operation("put", &WRITE),
        "patch": operation("patch", &patch),
        "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
    });
    paths.insert(format!("{collection}/{{name}}"), one);
    if served.namespaced {
        paths.insert(format!("{base}/{}", served.plural), json!({"get": operation("list", &list)}));
    }
}

fn operation(format: Format, kind: &Value, action: &str, parameters: &[&str], model: &str) -> Value {
    let kind_of = |name: &str| match name {
        "limit" | "gracePeriodSeconds" => "integer",
        "watch" | "force" => "boolean",
        _ => "string",
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|name| match format {
            Format::V2 => json!({"name": name, "in": "query", "type": kind_of(name)}),
            Format::V3 => json!({"name": name, "in": "query", "schema": {"type": kind_of(name)}}),
        })
        .collect();
    let answer = match format {
        Format::V2 => json!({"description": "OK", "schema": {"$ref": format!("#/definitions/{model}")}}),
        Format::V3 => {
            let schema = json!({"$ref": format!("#/components/schemas/{model}")});
            json!({"description": "OK", "content": {"application/json": {"schema": schema}}})
        }
    };
    json!({
        "parameters": parameters,
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::schema::builtin;

    fn deployment() -> Served<'static> {
        Served {
            group: "apps",
            version: "v1",
            plural: "deployments",
            kind: "Deployment",
            namespaced: true,
            stored: true,
            custom: None,
        }
    }

    #[test]
    fn a_document_has_whatever_its_kinds_refer_to() {
        for (format, root) in [(Format::V2, "#/definitions/"), (Format::V3, "#/components/schemas/")] {
            let document = document(builtin(), format, &[deployment()]);
            let schemas = match format {
                Format::V2 => document.at("definitions"),
                Format::V3 => document.at("components.schemas"),
            };
            let text = document.to_string();
            for reference in text.split("\"$ref\":\"").skip(1) {
                let name = reference.split('"').next().and_then(|target| target.strip_prefix(root)).unwrap();
                assert!(schemas.get(name).is_some(), "{name} is referred to and missing");
            }
        }
    }

    #[test]
    fn fields_say_how_they_merge() {
        let document = document(builtin(), Format::V3, &[deployment()]);
        let schemas = document.at("components.schemas");
        let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
        let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
        let kind = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
        assert_eq!(deployment["x-kubernetes-group-version-kind"], kind);
        let one = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
        let names: Vec<&str> =
            one["patch"]["parameters"].as_array().unwrap().iter().map(|p| p.text("name")).collect();
        assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    }
}
