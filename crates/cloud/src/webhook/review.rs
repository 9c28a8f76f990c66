//! Admission reviews (`admission.k8s.io/v1`) as JSON. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const KIND: &str = "AdmissionReview";
const API_VERSION: &str = "admission.k8s.io/v1";
const JSON: &str = "application/json";

/// The `request` of an AdmissionReview.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdmissionRequest {
    pub uid: String,
    pub kind: GroupVersionKind,
    pub resource: GroupVersionResource,
    pub sub_resource: String,
    pub name: String,
    pub namespace: String,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The user of the request, as sent.
    pub user_info: Value,
    /// The new object; null when it is deleted.
    pub object: Value,
    /// The existing object; null when it is created.
    pub old_object: Value,
    pub dry_run: Option<bool>,
    /// The options of the request, as sent.
    pub options: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    pub group: String,
    pub version: String,
    pub resource: String,
}

/// The decision of a webhook about a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    pub allowed: bool,
    /// Why not, as a `Status` of the API; null for no reason.
    #[serde(rename = "status", skip_serializing_if = "Value::is_null")]
    pub refusal: Value,
    /// A JSON patch (RFC 6902) of the object; null for none.
    #[serde(skip)]
    pub patch: Value,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AdmissionResponse {
    pub fn allowed() -> Self {
        Self { allowed: true, ..Self::default() }
    }

    /// A refusal with a message for the user, who gets it with the status code 403.
    pub fn refused(message: &str) -> Self {
        let refusal = json!({"message": message, "reason": "Forbidden", "code": 403});
        Self { refusal, ..Self::default() }
    }

    /// The request, with changes to its object: a JSON patch (RFC 6902).
    pub fn patched(patch: Value) -> Self {
        Self { patch, ..Self::allowed() }
    }
}

/// A review as it arrives. A missing kind or version is taken for the right one, as upstream does.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    request: Option<AdmissionRequest>,
}

/// Reads the request of a review.
///
/// # Errors
/// The body is not an AdmissionReview in JSON.
pub(super) fn request(content_type: &str, body: &[u8]) -> Result<AdmissionRequest, String> {
    if content_type != JSON {
        return Err(format!("Content-Type: {content_type:?} should be {JSON:?}"));
    }
    if body.is_empty() {
        return Err("admission request HTTP body is empty".to_owned());
    }
    let unreadable = |problem: String| format!("could not deserialize incoming admission review: {problem}");
    let Incoming { kind, api_version, request } =
        serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    let is_right = |found: &str, wanted: &str| found.is_empty() || found == wanted;
    if !is_right(&kind, KIND) || !is_right(&api_version, API_VERSION) {
        return Err(unreadable(format!("it is {kind:?} of {api_version:?}, not {KIND} of {API_VERSION}")));
    }
    request.ok_or_else(|| "admission review can't be used: Request field is nil".to_owned())
}

/// The review that answers the request with this uid.
pub(super) fn review(uid: &str, response: &AdmissionResponse) -> Vec<u8> {
    let mut answer = json!(response);
    answer["uid"] = json!(uid);
    if !response.patch.is_null() {
        // Bytes are base64 in JSON.
        answer["patch"] = json!(base64(response.patch.to_string().as_bytes()));
        answer["patchType"] = json!("JSONPatch");
    }
    json!({"kind": KIND, "apiVersion": API_VERSION, "response": answer}).to_string().into_bytes()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
