//! Reads request bodies: kind and version, unknown fields, defaults, and what feature gates change about them.

use serde_json::{Value, json};

use super::Ops;
use crate::error::ApiError;
use crate::invalid::Cause;
use crate::kinds::{schema, shape};
use crate::resource::Resource;

/// How unknown fields in a request body are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Ops<'_> {
    /// Reads a request body as an object of this resource, in storage form, with defaults.
    pub fn decode(&mut self, mut object: Value) -> Result<Value, ApiError> {
        let resource = self.resource;
        let expected = resource.api_version();
        if !object.is_object() {
            let found = if object.is_null() { "null" } else { "a value that is not an object" };
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {found}",
                resource.kind
            )));
        }
        for (field, wanted) in [("kind", resource.kind.as_str()), ("apiVersion", expected.as_str())] {
            match object[field].as_str() {
                None | Some("") => object[field] = json!(wanted),
                Some(found) if found == wanted => {}
                Some(_) => return Err(wrong_kind(resource, &object)),
            }
        }
        self.shape(&mut object)?;
        let mut object = resource.strategy.to_storage(object);
        if let Some(custom) = &resource.custom {
            custom.default(&mut object);
        }
        resource.strategy.default(&mut object);
        if resource.is("apps", "statefulsets")
            && self.server.options.feature_gates.contains("MaxUnavailableStatefulSet")
        {
            default_max_unavailable(&mut object);
        }
        if resource.custom.is_none() && !self.server.options.feature_gates.contains("GenericWorkload") {
            drop_scheduling_groups(&mut object);
        }
        Ok(object)
    }

    /// Removes faults that are none with the feature gates of this server.
    pub(super) fn allow_by_gates(&self, faults: &mut Vec<Cause>, object: &Value) {
        if self.resource.is("autoscaling", "horizontalpodautoscalers")
            && self.server.options.feature_gates.contains("HPAScaleToZero")
        {
            crate::kinds::autoscaling::allow_zero(faults, object);
        }
        if self.resource.custom.is_none()
            && self.server.options.feature_gates.contains("TaintTolerationComparisonOperators")
        {
            crate::kinds::pod::allow_comparisons(faults, object);
        }
    }

    fn shape(&mut self, object: &mut Value) -> Result<(), ApiError> {
        let unknown = match (self.resource.shape, &self.resource.custom) {
            (Some(kind), _) => shape(schema::builtin(), kind, object).map_err(|wrong| {
                let (kind, version) = (&self.resource.kind, &self.resource.version);
                ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {wrong}"
                ))
            })?,
            (None, Some(custom)) => custom.prune(object),
            (None, None) => Vec::new(),
        };
        let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
        let repeated = std::mem::take(&mut self.repeated);
        let repeated = repeated.iter().map(|path| format!("duplicate field {path:?}"));
        self.report(unknown.chain(repeated).collect())
    }

    /// Reports unknown and duplicate fields as the request's `fieldValidation` requires.
    fn report(&mut self, texts: Vec<String>) -> Result<(), ApiError> {
        if texts.is_empty() {
            return Ok(());
        }
        match self.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.notes.warn(texts),
            FieldValidation::Strict => {
                let (kind, version) = (&self.resource.kind, &self.resource.version);
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                    texts.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// Removes the PodGroup from a pod or from a template of pods, as a server without the gate does.
fn drop_scheduling_groups(object: &mut Value) {
    for path in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"] {
        if let Some(spec) = object.pointer_mut(path).and_then(Value::as_object_mut) {
            spec.remove("schedulingGroup");
        }
    }
}

/// The default of a rolling update's `maxUnavailable`, where that field is enabled.
fn default_max_unavailable(set: &mut Value) {
    // Indexing would add a null where there is no `rollingUpdate`, which is a change of the spec.
    if let Some(Value::Object(update)) = set.pointer_mut("/spec/updateStrategy/rollingUpdate") {
        update.entry("maxUnavailable").or_insert_with(|| json!(1));
    }
}

fn wrong_kind(resource: &Resource, object: &Value) -> ApiError {
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let short = version.rsplit('/').next().unwrap_or_default();
    if kind != resource.kind {
        let group =
            if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or("") };
        return ApiError::bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {}: converting ({short}.{kind}) to ({group}.{}): \
             unknown conversion",
            resource.kind, resource.kind
        ));
    }
    ApiError::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({})",
        resource.api_version()
    ))
}
