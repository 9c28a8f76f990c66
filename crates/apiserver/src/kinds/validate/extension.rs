//! Custom resource definitions and API services.

use serde_json::{Value, json};

use super::{At, Faults, go_struct, names, quoting, webhooks};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

pub(in crate::kinds) fn definition(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    let wanted = format!("{}.{}", spec.text("names.plural"), spec.text("group"));
    if object.text("metadata.name") != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        faults.push(Cause::invalid("metadata.name", object.text("metadata.name"), detail));
    }
    if spec.require(&mut faults, "group") {
        spec.must_be(&mut faults, "group", names::subdomain);
        if !spec.text("group").contains('.') && names::subdomain(spec.text("group")).is_empty() {
            let detail = "should be a domain with at least one dot";
            faults.push(Cause::invalid(spec.path("group"), spec.text("group"), detail));
        }
    }
    match spec.text("scope") {
        "" => faults.push(Cause::required(spec.path("scope"), "")),
        _ => spec.one_of(&mut faults, "scope", &["Cluster", "Namespaced"]),
    }
    let storage = spec.value.items("versions").iter().filter(|version| version.flag("storage")).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        faults.push(quoting(Fault::Invalid, spec.path("versions"), &versions_text(&spec), detail));
    }
    for version in spec.items("versions") {
        version.must_be(&mut faults, "name", names::label_1035);
        if storage == 1 && !version.has("schema.openAPIV3Schema") {
            faults.push(Cause::required(version.path("schema.openAPIV3Schema"), ""));
        }
    }
    // Upstream: a schema that all versions share is moved to the definition, and reported there.
    let schemas: Vec<(&Value, String)> = spec
        .items("versions")
        .map(|version| (version.value.at("schema.openAPIV3Schema"), version.path("schema.openAPIV3Schema")))
        .collect();
    match schemas.split_first() {
        Some(((first, _), rest)) if rest.iter().all(|(schema, _)| schema == first) => {
            faults.extend(crate::crd::rules::faults(first, &spec.path("validation.openAPIV3Schema")));
        }
        _ => {
            faults.extend(schemas.iter().flat_map(|(schema, path)| crate::crd::rules::faults(schema, path)));
        }
    }
    let names_at = spec.child("names");
    for field in ["plural", "singular"] {
        names_at.must_be_named(&mut faults, field, names::label_1035);
    }
    for field in ["kind", "listKind"] {
        if names_at.require(&mut faults, field) {
            let lower = names_at.text(field).to_lowercase();
            let details = names::label_1035(&lower);
            let path = names_at.path(field);
            faults.extend(details.iter().map(|d| {
                Cause::invalid(
                    path.clone(),
                    names_at.text(field),
                    &format!("may have mixed case, but should otherwise match: {d}"),
                )
            }));
        }
    }
    conversion(&mut faults, &spec.child("conversion"));
    if object.items("status.storedVersions").is_empty() {
        faults.push(Cause::invalid(
            "status.storedVersions",
            Value::Null,
            "must have at least one stored version",
        ));
    }
    faults
}

/// How objects are converted between versions. Fields are named as in upstream's internal type.
fn conversion(faults: &mut Faults, conversion: &At<'_>) {
    let path = |field: &str| conversion.path(field);
    let client = At { value: conversion.value.at("webhook.clientConfig"), path: path("webhookClientConfig") };
    let versions = conversion.value.at("webhook.conversionReviewVersions");
    let listed: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    conversion.one_of(faults, "strategy", &["None", "Webhook"]);
    if conversion.text("strategy") != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.value.is_object() {
            faults.push(Cause::forbidden(client.path, detail));
        }
        if !listed.is_empty() {
            faults.push(Cause::forbidden(path("conversionReviewVersions"), detail));
        }
        return;
    }
    match client.value.is_object() {
        true => webhooks::client(faults, &client),
        false => faults.push(Cause::required(client.path, "required when strategy is set to Webhook")),
    }
    let path = path("conversionReviewVersions");
    if listed.is_empty() {
        faults.push(Cause::required(path, ""));
        return;
    }
    for (at, version) in listed.iter().enumerate() {
        let here = format!("{path}[{at}]");
        if listed[..at].contains(version) {
            faults.push(Cause::invalid(here, *version, "duplicate version"));
            continue;
        }
        let found = names::label_1035(version);
        faults.extend(found.iter().map(|detail| Cause::invalid(here.clone(), *version, detail)));
    }
    if !listed.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        let detail = "must include at least one of v1, v1beta1";
        faults.push(Cause::invalid(path, versions.clone(), detail));
    }
}

/// The versions as upstream's internal type prints them.
fn versions_text(spec: &At<'_>) -> String {
    let one = |version: &Value| {
        go_struct(&[
            ("Name", version.at("name")),
            ("Served", &json!(version.flag("served"))),
            ("Storage", &json!(version.flag("storage"))),
            ("Deprecated", &json!(version.flag("deprecated"))),
            ("DeprecationWarning", version.at("deprecationWarning")),
            ("Schema", &Value::Null),
            ("Subresources", &Value::Null),
            ("AdditionalPrinterColumns", &Value::Null),
            ("SelectableFields", &Value::Null),
        ])
    };
    format!("[{}]", spec.value.items("versions").iter().map(one).collect::<Vec<_>>().join(","))
}

pub(in crate::kinds) fn api_service(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    let wanted = format!("{}.{}", spec.text("version"), spec.text("group"));
    if object.text("metadata.name") != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        faults.push(Cause::invalid("metadata.name", object.text("metadata.name"), &detail));
    }
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = spec.int(field).unwrap_or(0);
        if number <= 0 || number > most {
            let detail = format!("must be positive and less than {most}");
            faults.push(Cause::invalid(spec.path(field), number, &detail));
        }
    }
    faults
}
