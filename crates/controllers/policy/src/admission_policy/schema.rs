//! The schema of a kind, as the API server publishes it, into the object types that expressions see. Pure.

use std::collections::BTreeMap;

use flyball_cel::{Fields, Type, escaped};
use serde::Deserialize;
use smol_str::SmolStr;

use super::kinds::Kind;

/// Object types by their names.
pub(crate) type Objects = BTreeMap<SmolStr, Fields>;

/// More types than any kind needs. Schemas that refer to each other in circles of many could otherwise grow without end.
const MOST_TYPES: usize = 100_000;

/// Of an OpenAPI document, what matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    components: Components,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: BTreeMap<SmolStr, Schema>,
}

/// Of a schema, what matters here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<SmolStr>,
    all_of: Vec<Schema>,
    #[serde(rename = "type")]
    kind: Option<SmolStr>,
    format: Option<SmolStr>,
    properties: Option<BTreeMap<SmolStr, Schema>>,
    items: Option<Box<Schema>>,
    additional_properties: Option<Additional>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    is_int_or_string: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    is_embedded: bool,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    describes: Vec<Kind>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Additional {
    Of(Box<Schema>),
    /// Whether others are allowed, whatever they are.
    Any(serde::de::IgnoredAny),
}

impl Schema {
    /// The `$ref` of the schema, directly or inside `allOf` (which allows a description beside it).
    fn reference(&self) -> Option<&str> {
        self.reference.as_deref().or_else(|| self.all_of.iter().find_map(Self::reference))
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.properties.as_ref()?.get(name)
    }
}

/// Why a published schema cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaError {
    /// It refers to what is not there.
    #[error("{0} is referenced but not published")]
    Dangling(SmolStr),
    #[error("it has more than {MOST_TYPES} types")]
    TooLarge,
}

impl Document {
    /// The type of objects of a kind, and what it consists of. Nothing if the document does not describe the kind.
    pub(crate) fn object_type(
        &self,
        kind: &Kind,
        name: &str,
    ) -> Result<Option<(Option<Type>, Objects)>, SchemaError> {
        let described = self.components.schemas.iter().find(|(_, schema)| schema.describes.contains(kind));
        let Some((reference, schema)) = described else { return Ok(None) };
        let mut translation =
            Translation { document: self, objects: Objects::new(), around: vec![reference] };
        let of = translation.described(schema, name, true)?;
        Ok(Some((of, translation.objects)))
    }
}

struct Translation<'a> {
    document: &'a Document,
    objects: Objects,
    /// The references that are being followed, so that circles end.
    around: Vec<&'a str>,
}

impl<'a> Translation<'a> {
    /// The type of values of a schema. Object types are named by their path. Values without a type cannot be used in expressions.
    fn translate(&mut self, schema: &'a Schema, name: &str) -> Result<Option<Type>, SchemaError> {
        let Some(reference) = schema.reference() else {
            return self.described(schema, name, schema.is_embedded);
        };
        let key = reference.rsplit('/').next().unwrap_or(reference);
        if self.around.contains(&key) {
            self.declare(name, Fields::new())?;
            return Ok(Some(Type::Object(name.into())));
        }
        let schemas = &self.document.components.schemas;
        let referred = schemas.get(key).ok_or_else(|| SchemaError::Dangling(reference.into()))?;
        self.around.push(key);
        let translated = self.described(referred, name, referred.is_embedded);
        self.around.pop();
        translated
    }

    fn described(
        &mut self,
        schema: &'a Schema,
        name: &str,
        is_resource: bool,
    ) -> Result<Option<Type>, SchemaError> {
        if schema.is_int_or_string || schema.format.as_deref() == Some("int-or-string") {
            return Ok(Some(Type::Dyn));
        }
        Ok(match schema.kind.as_deref() {
            Some("array") => match &schema.items {
                Some(items) => self.translate(items, &format!("{name}.@idx"))?.map(Type::list),
                None => None,
            },
            Some("object") => self.object(schema, name, is_resource)?,
            Some("string") => Some(match schema.format.as_deref() {
                Some("byte") => Type::Bytes,
                Some("duration") => Type::Duration,
                Some("date" | "date-time") => Type::Timestamp,
                _ => Type::String,
            }),
            Some("boolean") => Some(Type::Bool),
            Some("number") => Some(Type::Double),
            Some("integer") => Some(Type::Int),
            _ => None,
        })
    }

    fn object(
        &mut self,
        schema: &'a Schema,
        name: &str,
        is_resource: bool,
    ) -> Result<Option<Type>, SchemaError> {
        if let Some(Additional::Of(value)) = &schema.additional_properties {
            let value = self.translate(value, &format!("{name}.@elem"))?;
            return Ok(value.map(|value| Type::map(Type::String, value)));
        }
        let lacks_meta = is_resource && !self.has_type_and_meta(schema);
        let mut fields = Fields::new();
        for (property, schema) in schema.properties.iter().flatten() {
            if lacks_meta && matches!(property.as_str(), "kind" | "apiVersion" | "metadata") {
                continue;
            }
            let Some(field) = escaped(property) else { continue };
            if let Some(of) = self.translate(schema, &format!("{name}.{field}"))? {
                fields.insert(field, of);
            }
        }
        if lacks_meta {
            // Expressions may use the fields that every object has, whatever its schema.
            let meta = format!("{name}.metadata");
            let names = ["name", "generateName"].map(|field| (field.into(), Type::String));
            self.declare(&meta, names.into_iter().collect())?;
            fields.insert("metadata".into(), Type::Object(meta.into()));
            fields.extend(["kind", "apiVersion"].map(|field| (field.into(), Type::String)));
        }
        self.declare(name, fields)?;
        Ok(Some(Type::Object(name.into())))
    }

    fn declare(&mut self, name: &str, fields: Fields) -> Result<(), SchemaError> {
        if self.objects.len() >= MOST_TYPES {
            return Err(SchemaError::TooLarge);
        }
        self.objects.insert(name.into(), fields);
        Ok(())
    }

    /// Whether a schema has the fields that every object has.
    fn has_type_and_meta(&self, schema: &'a Schema) -> bool {
        let has_text = |schema: &Schema, name: &str| {
            schema.property(name).is_some_and(|property| self.followed(property).is("string"))
        };
        let Some(meta) = schema.property("metadata") else { return false };
        let meta = self.followed(meta);
        ["kind", "apiVersion"].iter().all(|name| has_text(schema, name))
            && meta.is("object")
            && ["name", "generateName"].iter().all(|name| has_text(meta, name))
    }

    fn followed<'b>(&'b self, schema: &'b Schema) -> &'b Schema {
        let key = schema.reference().map(|reference| reference.rsplit('/').next().unwrap_or(reference));
        key.and_then(|key| self.document.components.schemas.get(key)).unwrap_or(schema)
    }
}
