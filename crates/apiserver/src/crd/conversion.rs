//! Conversion of custom objects between versions by a webhook. Requests work on objects in their own version; objects are
//! converted when they are read from the store and before they are written to it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::meta;
use crate::resource::Resource;
use crate::server::Inner;
use crate::store::{Entry, Happened};
use crate::webhook::Client;

/// How long the webhook may take; upstream's default.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The conversion webhook of a definition.
#[derive(Debug)]
pub(crate) struct Conversion {
    client: Client,
    /// The version of `ConversionReview` that it is sent.
    review: Option<&'static str>,
}

impl Conversion {
    /// Reads `spec.conversion`; none if versions differ in their names only.
    pub(super) fn read(conversion: &Value) -> Option<Self> {
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let review = versions.filter_map(Value::as_str).find_map(|version| match version {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        Some(Self { client: Client::read(&webhook["clientConfig"]), review })
    }

    /// The objects in another version. Those that are in it already are not sent.
    pub(crate) async fn convert(
        &self,
        server: &Inner,
        mut objects: Vec<Value>,
        wanted: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let others: Vec<usize> =
            (0..objects.len()).filter(|at| objects[*at]["apiVersion"] != wanted).collect();
        let Some(first) = others.first() else { return Ok(objects) };
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (from, kind) = (text(&objects[*first], "apiVersion"), text(&objects[*first], "kind"));
        let about = format!("conversion webhook for {from}, Kind={kind}");
        let failed = |why: String| ApiError::unexplained(format!("{about} failed: {why}"));
        let version =
            self.review.ok_or_else(|| ApiError::unexplained("no supported conversion review versions"))?;
        let uid = meta::uuid(&mut *server.rng.lock());
        let sent: Vec<&Value> = others.iter().map(|at| &objects[*at]).collect();
        let request = json!({
            "kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": sent},
        });
        let review = self.client.post(server, &request, Some(TIMEOUT)).await.map_err(failed)?;
        let converted = verified(&review, version, &uid).map_err(failed)?;
        if converted.len() != others.len() {
            let (returned, expected) = (converted.len(), others.len());
            return Err(ApiError::unexplained(format!(
                "{about} returned {returned} objects, expected {expected}"
            )));
        }
        for (index, (at, new)) in others.into_iter().zip(converted).enumerate() {
            let invalid = |why: String| {
                ApiError::unexplained(format!(
                    "{about} returned invalid converted object at index {index}: {why}"
                ))
            };
            objects[at] = settled(&objects[at], new, wanted).map_err(invalid)?;
        }
        Ok(objects)
    }
}

/// The objects of an answer, or what is wrong with it.
fn verified(review: &Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let response = &review["response"];
    if version == "v1" {
        let (api, kind) = (text(review, "apiVersion"), text(review, "kind"));
        if (api.as_str(), kind.as_str()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            let shown = if api.contains('/') { api } else { format!("/{api}") };
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {shown}, Kind={kind}"
            ));
        }
    }
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    if version == "v1" && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, "uid")));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        return Err(match text(result, "message").as_str() {
            "" => format!("response.result.status was '{}', not 'Success'", text(result, "status")),
            message => message.to_owned(),
        });
    }
    Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default())
}

/// A converted object. Of its metadata, only labels and annotations may be the webhook's.
fn settled(old: &Value, mut new: Value, wanted: &str) -> Result<Value, String> {
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    if new["apiVersion"] != wanted {
        let got = text(&new, "apiVersion");
        return Err(format!("invalid groupVersion (expected {wanted}, received {got})"));
    }
    if new["kind"] != old["kind"] {
        let (expected, got) = (text(old, "kind"), text(&new, "kind"));
        return Err(format!("invalid kind (expected {expected}, received {got})"));
    }
    let mut metadata = old["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match new["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    new["metadata"] = Value::Object(metadata);
    Ok(new)
}

fn of(resource: &Resource) -> Option<&Conversion> {
    resource.custom.as_ref()?.conversion.as_deref()
}

/// Stored states as a resource shows them.
pub(crate) async fn shown(
    server: &Inner,
    resource: &Resource,
    entries: Vec<Arc<Entry>>,
) -> Result<Vec<Arc<Entry>>, ApiError> {
    let Some(conversion) = of(resource) else { return Ok(entries) };
    let objects = entries.iter().map(|entry| entry.value()).collect();
    let converted = conversion.convert(server, objects, &resource.api_version()).await?;
    let entry = |(entry, object): (Arc<Entry>, Value)| {
        let (key, facets) = (entry.key.clone(), entry.facets.clone());
        Arc::new(Entry::new(entry.version, key, facets, Happened::Modified, &object))
    };
    Ok(entries.into_iter().zip(converted).map(entry).collect())
}

/// One object in the version of a resource, or in the version that is stored.
pub(crate) async fn converted(
    server: &Inner,
    resource: &Resource,
    object: Value,
    wanted: &str,
) -> Result<Value, ApiError> {
    match of(resource) {
        None => Ok(object),
        Some(conversion) => {
            let converted = conversion.convert(server, vec![object], wanted).await?;
            Ok(converted.into_iter().next().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_may_change_labels_and_annotations_only() {
        let old = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}});
        let new =
            json!({"apiVersion": "a/v2", "kind": "K", "metadata": {"name": "x", "annotations": {"c": "d"}}});
        let want = json!({"apiVersion": "a/v2", "kind": "K", "metadata": {"name": "n", "uid": "u", "annotations": {"c": "d"}}});
        assert_eq!(settled(&old, new.clone(), "a/v2"), Ok(want));
        assert_eq!(
            settled(&old, new, "a/v3"),
            Err("invalid groupVersion (expected a/v3, received a/v2)".to_owned())
        );
    }
}
