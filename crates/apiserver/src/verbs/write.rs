//! create, update and delete.

use serde_json::{Value, json};

use super::{Answer, Call};
use crate::error::ApiError;
use crate::life::{DeleteOptions, Deleted, Target};
use crate::meta;
use crate::registry::Subresource;

pub(super) async fn create(call: &Call<'_>) -> Result<Answer, ApiError> {
    let mut ops = call.ops()?;
    let object = call.object(&mut ops)?;
    if call.resource.namespaced && call.info.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let entry = ops.create(call.namespace(), object).await?;
    Ok(call.done(call.entry(201, entry).await?, &ops))
}

pub(super) async fn update(call: &Call<'_>, sub: Option<Subresource>) -> Result<Answer, ApiError> {
    let mut ops = call.ops()?;
    let object = call.object(&mut ops)?;
    let key = call.key();
    if meta::text(&object, "name").is_empty() {
        // Upstream also requires the name in the body.
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            "", key.name
        )));
    }
    let create_missing = sub.is_none() && call.resource.strategy.allow_create_on_update();
    let target = Target { sub, create_missing, ..Target::default() };
    let updated = ops.update(&key, target, |_, _| Ok(object.clone())).await?;
    let code = if updated.created { 201 } else { 200 };
    Ok(call.done(call.entry(code, updated.entry).await?, &ops))
}

pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, ApiError> {
    let options = delete_options(call)?;
    let mut ops = call.ops()?;
    ops.dry_run |= body_dry_run(call);
    ops.review = Some(delete_review(call));
    let key = call.key();
    let deleted = ops.delete(&key, &options).await?;
    let code = if !deleted.gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
    let response = match deleted {
        Deleted { entry, gone } if !gone || returns_object(call) => call.entry(code, entry).await?,
        Deleted { entry, .. } => call.value(code, &success(call, &entry.value())),
    };
    Ok(call.done(response, &ops))
}

/// The options of a delete request, from its body or its query.
pub(super) fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    if !call.body.is_empty() {
        let body: Value = call.json_body("DeleteOptions")?;
        if body.is_object() {
            return DeleteOptions::read(&body);
        }
    }
    let query = call.query;
    let mut options = json!({});
    if let Some(grace) = query.number("gracePeriodSeconds")? {
        options["gracePeriodSeconds"] = json!(grace);
    }
    if let Some(policy) = query.get("propagationPolicy") {
        options["propagationPolicy"] = json!(policy);
    }
    if let Some(orphan) = query.flag("orphanDependents") {
        options["orphanDependents"] = json!(orphan);
    }
    DeleteOptions::read(&options)
}

/// The options of a delete request as policies and webhooks see them.
pub(super) fn delete_review(call: &Call<'_>) -> Value {
    let body =
        if call.body.is_empty() { Value::Null } else { call.json_body("DeleteOptions").unwrap_or_default() };
    let mut options = body.as_object().cloned().unwrap_or_default();
    if options.is_empty() {
        let query = call.query;
        if let Ok(Some(grace)) = query.number("gracePeriodSeconds") {
            options.insert("gracePeriodSeconds".to_owned(), json!(grace));
        }
        if let Some(policy) = query.get("propagationPolicy") {
            options.insert("propagationPolicy".to_owned(), json!(policy));
        }
        if let Some(orphan) = query.flag("orphanDependents") {
            options.insert("orphanDependents".to_owned(), json!(orphan));
        }
        if query.get("dryRun").is_some() {
            options.insert("dryRun".to_owned(), json!(["All"]));
        }
    }
    Value::Object(options)
}

/// A delete request may also ask for a dry run in its body.
pub(super) fn body_dry_run(call: &Call<'_>) -> bool {
    let body = if call.body.is_empty() { None } else { call.json_body("DeleteOptions").ok() };
    body.is_some_and(|body| {
        body["dryRun"].as_array().is_some_and(|list| list.iter().any(|value| value == "All"))
    })
}

fn success(call: &Call<'_>, last: &Value) -> Value {
    let mut details = json!({
        "name": last["metadata"]["name"], "kind": call.resource.plural, "uid": last["metadata"]["uid"],
    });
    if !call.resource.group.is_empty() {
        details["group"] = json!(call.resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Whether a deletion returns the object instead of a Status.
fn returns_object(call: &Call<'_>) -> bool {
    const CORE: [&str; 8] = [
        "pods",
        "services",
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "serviceaccounts",
        "resourcequotas",
        "podtemplates",
    ];
    match call.resource.group.as_str() {
        "" => CORE.contains(&call.resource.plural.as_str()),
        "storage.k8s.io" => call.resource.plural != "csistoragecapacities",
        "resource.k8s.io" => true,
        _ => false,
    }
}
