//! patch, in its four forms.

use serde_json::Value;

use super::{Answer, Call};
use crate::error::ApiError;
use crate::kinds::schema;
use crate::life::{Ops, Target};
use crate::patching;
use crate::registry::Subresource;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch as it was received.
pub(super) enum Change {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

impl Change {
    pub(super) fn read(call: &Call<'_>) -> Result<Self, ApiError> {
        let accepted = match call.resource.custom {
            Some(_) => {
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            }
            None => {
                "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
                 application/apply-patch+yaml"
            }
        };
        let json = || {
            serde_json::from_slice::<Value>(&call.body)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
        };
        match call.media {
            JSON => Ok(Self::Json(json()?)),
            MERGE => Ok(Self::Merge(json()?)),
            STRATEGIC if call.resource.shape.is_some() => Ok(Self::Strategic(json()?)),
            APPLY => serde_yaml::from_slice(&call.body)
                .map(Self::Apply)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}"))),
            _ => Err(ApiError::unsupported_media_type(accepted)),
        }
    }

    /// The object after the patch. `kind` is its OpenAPI type, for strategic merges.
    pub(super) fn on(
        &self,
        mut object: Value,
        kind: Option<&'static schema::Type>,
    ) -> Result<Value, ApiError> {
        match (self, kind) {
            (Self::Json(patch), _) => patching::json_patch(&mut object, patch)?,
            (Self::Strategic(patch), Some(kind)) => {
                patching::strategic(schema::builtin(), kind, &mut object, patch)?;
            }
            (Self::Merge(patch) | Self::Strategic(patch), _) => json_patch::merge(&mut object, patch),
            (Self::Apply(_), _) => {
                return Err(ApiError::bad_request("server-side apply is not supported here"));
            }
        }
        Ok(object)
    }
}

pub(super) async fn patch(call: &Call<'_>, sub: Option<Subresource>) -> Result<Answer, ApiError> {
    let change = Change::read(call)?;
    let mut ops = call.ops()?;
    let key = call.key();
    if let Change::Apply(config) = &change {
        let force = call.query.flag("force") == Some(true);
        let Some(manager) = call.query.get("fieldManager") else {
            return Err(crate::apply::manager_required());
        };
        let apply = crate::apply::Apply { manager, force, sub };
        let updated = apply.run(&mut ops, &key, config).await?;
        let code = if updated.created { 201 } else { 200 };
        return Ok(call.done(call.entry(code, updated.entry).await?, &ops));
    }
    let target = Target { sub, repeatable: true, ..Target::default() };
    let updated = ops.update(&key, target, |ops, old| patched(ops, &change, old)).await?;
    Ok(call.done(call.entry(200, updated.entry).await?, &ops))
}

fn patched(ops: &mut Ops<'_>, change: &Change, old: Option<&Value>) -> Result<Value, ApiError> {
    let resource = ops.resource;
    let old = old.cloned().unwrap_or_default();
    let served = if resource.converts() { resource.strategy.serve(old) } else { old };
    let new = change.on(served, resource.shape)?;
    ops.decode(new)
}
