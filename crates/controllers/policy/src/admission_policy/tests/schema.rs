//! Schemas that refer to others, as the API server's own do.

use super::super::kinds::Kind;
use super::super::schema::{Document, SchemaError};

fn types(schemas: &str) -> Result<Vec<String>, SchemaError> {
    let text = format!(r#"{{"openapi": "3.0.0", "paths": {{}}, "components": {{"schemas": {schemas}}}}}"#);
    let document: Document = serde_json::from_str(&text).unwrap();
    let kind = Kind { group: "".into(), version: "v1".into(), kind: "Node".into() };
    let found = document.object_type(&kind, "Node").map(Option::unwrap_or_default)?;
    let fields = found
        .1
        .iter()
        .flat_map(|(object, fields)| fields.iter().map(move |(field, of)| format!("{object}.{field}: {of}")));
    Ok(fields.collect())
}

const META: &str = r##""Meta": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"},
    "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}}}}"##;

const NODE: &str = r##""x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Node"}], "type": "object""##;

#[test]
fn references_are_followed_also_when_wrapped_and_circles_end() {
    let schemas = format!(
        r##"{{{META},
        "Tree": {{"type": "object", "properties": {{
            "left": {{"$ref": "#/components/schemas/Tree"}},
            "leaf": {{"format": "int-or-string", "oneOf": [{{"type": "integer"}}, {{"type": "string"}}]}},
            "amount": {{"oneOf": [{{"type": "number"}}, {{"type": "string"}}]}}}}}},
        "Node": {{{NODE}, "properties": {{
            "kind": {{"type": "string"}}, "apiVersion": {{"type": "string"}},
            "metadata": {{"default": {{}}, "allOf": [{{"$ref": "#/components/schemas/Meta"}}]}},
            "trees": {{"type": "array", "items": {{"default": {{}}, "allOf": [{{"$ref": "#/components/schemas/Tree"}}]}}}},
            "amounts": {{"type": "object", "additionalProperties": {{"oneOf": []}}}}}}}}}}"##
    );
    let want = [
        "Node.apiVersion: string",
        "Node.kind: string",
        "Node.metadata: Node.metadata",
        "Node.trees: list(Node.trees.@idx)",
        "Node.metadata.generateName: string",
        "Node.metadata.labels: map(string, string)",
        "Node.metadata.name: string",
        "Node.trees.@idx.leaf: dyn",
        "Node.trees.@idx.left: Node.trees.@idx.left",
    ];
    assert_eq!(types(&schemas).unwrap(), want);
}

#[test]
fn what_refers_to_nothing_is_an_error() {
    let schemas =
        format!(r##"{{"Node": {{{NODE}, "properties": {{"a": {{"$ref": "#/components/schemas/B"}}}}}}}}"##);
    assert_eq!(types(&schemas), Err(SchemaError::Dangling("#/components/schemas/B".into())));
}

#[test]
fn a_kind_that_is_not_described_has_no_types() {
    assert_eq!(types("{}"), Ok(vec![]));
}
