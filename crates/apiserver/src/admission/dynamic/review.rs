//! `AdmissionReview`, in which webhooks are asked and answer. Pure.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::error::ApiError;

/// What is sent.
pub(super) fn request(version: &str, request: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
}

/// What a webhook says.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) is_allowed: bool,
    /// The bytes of a patch that is not empty.
    pub(super) patch: Option<Vec<u8>>,
    pub(super) patch_type: String,
    /// A Status that explains a refusal.
    pub(super) result: Value,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Reads an answer, or says what is wrong with it.
pub(super) fn verified(review: &Value, version: &str, uid: &str, mutates: bool) -> Result<Answer, String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let patch = base64::engine::general_purpose::STANDARD.decode(text(response, "patch"));
    let patch = patch.map_err(|error| format!("illegal base64 data: {error}"))?;
    let patch = Some(patch).filter(|patch| !patch.is_empty());
    let mut patch_type = response["patchType"].as_str().map(str::to_owned);
    if version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return Err(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        let (api, kind) = (text(review, "apiVersion"), text(review, "kind"));
        if (api.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
            let shown = if api.contains('/') { api } else { format!("/{api}") };
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
            ));
        }
        check_patch(patch.is_some(), patch_type.as_deref(), mutates)?;
    } else if patch.is_some() {
        // v1beta1 never said which kind of patch it is.
        patch_type = Some("JSONPatch".to_owned());
    }
    let list = response["warnings"].as_array().into_iter().flatten();
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(Answer {
        is_allowed: response["allowed"] == true,
        patch: patch.filter(|_| mutates),
        patch_type: patch_type.unwrap_or_default(),
        result: response.get("status").cloned().unwrap_or_default(),
        warnings: list.filter_map(Value::as_str).map(str::to_owned).collect(),
        annotations: annotations.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
    })
}

fn check_patch(has_patch: bool, patch_type: Option<&str>, mutates: bool) -> Result<(), String> {
    let why = match (mutates, has_patch, patch_type) {
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, true, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

/// The refusal of a webhook as the client sees it.
pub(super) fn denial(webhook: &str, result: &Value) -> ApiError {
    let text = |field: &str| result[field].as_str().unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let mut error = ApiError::bad_request(message);
    error.code = code.max(400);
    error.reason = SmolStr::from(text("reason"));
    error.details = result.get("details").filter(|details| details.is_object()).cloned();
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        let v1 = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        #[rustfmt::skip]
        let table = [
            (json!({}),                                                                         true,  "webhook response was absent"),
            (v1(json!({"uid": "b"})),                                                           true,  "expected response.uid=\"a\", got \"b\""),
            (json!({"response": {"uid": "a"}}),                                                 true,  "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
            (v1(json!({"uid": "a", "patch": "W10="})),                                          true,  "webhook returned response.patch but not response.patchType"),
            (v1(json!({"uid": "a", "patchType": "JSONPatch"})),                                 true,  "webhook returned response.patchType but not response.patch"),
            (v1(json!({"uid": "a", "patch": "W10=", "patchType": "JSONPatch"})),                false, "validating webhook may not return response.patch"),
            (v1(json!({"uid": "a", "allowed": true})),                                          false, ""),
        ];
        for (review, mutates, want) in table {
            let found = verified(&review, "v1", "a", mutates).err().unwrap_or_default();
            assert_eq!(found, want);
        }
        let old = json!({"response": {"allowed": true, "patch": "W10="}});
        assert_eq!(verified(&old, "v1beta1", "a", true).unwrap().patch_type, "JSONPatch");
    }

    #[test]
    fn refusals_say_why() {
        #[rustfmt::skip]
        let table = [
            (json!({"message": "no", "code": 409, "reason": "Conflict"}), 409, "admission webhook \"x\" denied the request: no"),
            (json!({"reason": "Gone"}),                                   400, "admission webhook \"x\" denied the request: Gone"),
            (json!({"code": 200}),                                        400, "admission webhook \"x\" denied the request without explanation"),
            (Value::Null,                                                 400, "admission webhook \"x\" denied the request without explanation"),
        ];
        for (result, code, message) in table {
            let error = denial("x", &result);
            assert_eq!((error.code, error.message.as_str()), (code, message));
        }
    }
}
