//! Patches: JSON patch, merge patch and strategic merge patch, on plain JSON.

mod strategic;

use serde_json::Value;

pub(crate) use strategic::strategic;

use crate::error::ApiError;

/// RFC 6902. A patch that cannot be applied to the object gives 422, a malformed patch 400.
pub(crate) fn json_patch(object: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let patch: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    json_patch::patch(object, &patch).map_err(|error| ApiError {
        code: 422,
        reason: "Invalid".into(),
        message: format!("the server rejected our request due to an error in our request: {error}"),
        details: Some(serde_json::json!({})),
    })
}
