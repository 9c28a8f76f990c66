//! Webhook configurations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{At, Faults, names, registration, rules, selector};
use crate::invalid::Cause;
use crate::kinds::json::Json;

const KNOWN_REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

pub(in crate::kinds) fn webhooks(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let conditions = |of: &Value| -> Vec<Value> {
        of.items("webhooks").iter().map(|webhook| webhook.at("matchConditions").clone()).collect()
    };
    let conditions_stay = old.is_some_and(|old| conditions(old) == conditions(object));
    let mut seen = BTreeSet::new();
    for webhook in At::root(object).items("webhooks") {
        webhook_faults(&mut faults, &webhook);
        if !conditions_stay {
            registration::conditions(&mut faults, &webhook, false);
        }
        reviews(&mut faults, &webhook);
        let name = webhook.text("name");
        if !name.is_empty() && !seen.insert(name) {
            faults.push(Cause::duplicate(webhook.path("name"), name));
        }
    }
    faults
}

fn webhook_faults(faults: &mut Faults, webhook: &At<'_>) {
    qualified(faults, webhook);
    for rule in webhook.items("rules") {
        rules::check(faults, &rule);
    }
    webhook.one_of(faults, "failurePolicy", &["Fail", "Ignore"]);
    webhook.one_of(faults, "matchPolicy", &["Equivalent", "Exact"]);
    match webhook.text("sideEffects") {
        "" => {
            let detail = "must specify one of None, NoneOnDryRun";
            faults.push(Cause::required(webhook.path("sideEffects"), detail));
        }
        _ => webhook.one_of(faults, "sideEffects", &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) = webhook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        faults.push(Cause::invalid(webhook.path("timeoutSeconds"), seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector::check(faults, &webhook.child(field));
    }
    webhook.one_of(faults, "reinvocationPolicy", &["IfNeeded", "Never"]);
    client(faults, &webhook.child("clientConfig"));
}

fn qualified(faults: &mut Faults, webhook: &At<'_>) {
    let name = webhook.text("name");
    if !webhook.require(faults, "name") {
        return;
    }
    let found = names::subdomain(name);
    if !found.is_empty() {
        faults.push(Cause::invalid(webhook.path("name"), name, &found.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        faults.push(Cause::invalid(webhook.path("name"), name, detail));
    }
}

fn reviews(faults: &mut Faults, webhook: &At<'_>) {
    let path = webhook.path("admissionReviewVersions");
    let versions = webhook.value.items("admissionReviewVersions");
    if versions.is_empty() {
        faults.push(Cause::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for version in webhook.items("admissionReviewVersions") {
        let text = version.value.as_str().unwrap_or_default();
        if seen.insert(text) {
            version.must_be(faults, "", names::label_1035);
        } else {
            faults.push(version.invalid("duplicate version"));
        }
    }
    if !KNOWN_REVIEWS.iter().any(|known| seen.contains(known)) {
        let detail = "must include at least one of v1, v1beta1";
        faults.push(webhook.child("admissionReviewVersions").invalid(detail));
    }
}

/// Where a webhook is: a URL or a service.
pub(super) fn client(faults: &mut Faults, client: &At<'_>) {
    match (client.has("url"), client.has("service")) {
        (true, false) => url(faults, client),
        (false, true) => service(faults, &client.child("service")),
        _ => faults.push(Cause::required(client.path.clone(), "exactly one of url or service is required")),
    }
}

fn url(faults: &mut Faults, client: &At<'_>) {
    let text = client.text("url");
    let path = || client.path("url");
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let host = if scheme.is_empty() { "" } else { host };
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        faults.push(Cause::invalid(path(), scheme, &detail));
    }
    if host.is_empty() {
        faults.push(Cause::invalid(path(), host, &format!("host must be specified{FORM}")));
    }
    for (part, what) in
        [(user, "user information is"), (fragment, "fragments are"), (query, "query parameters are")]
    {
        if !part.is_empty() {
            faults.push(Cause::invalid(path(), part, &format!("{what} not permitted in the URL")));
        }
    }
}

fn service(faults: &mut Faults, service: &At<'_>) {
    // Upstream: pkg/apis/admissionregistration/validation: passes name and namespace the wrong way round, so each is
    // reported as the other.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            faults.push(Cause::required(service.path(reported), ""));
        }
    }
    if let Some(port) = service.int("port").filter(|port| !(1..=65535).contains(port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        faults.push(Cause::invalid(service.path("port"), port, detail));
    }
    let path = service.text("path");
    if !service.has("path") || path == "/" || path.is_empty() {
        return;
    }
    let invalid = |detail: &str| Cause::invalid(service.path("path"), path, detail);
    if path == "//" {
        faults.push(invalid("segment[0] may not be empty"));
        return;
    }
    if !path.starts_with('/') {
        faults.push(invalid("must start with a '/'"));
    }
    // Without its first character, whatever that is.
    let steps = path.char_indices().nth(1).map_or("", |(at, _)| &path[at..]);
    let steps: Vec<&str> = steps.strip_suffix('/').unwrap_or(steps).split('/').collect();
    for (at, step) in steps.iter().enumerate() {
        if step.is_empty() {
            faults.push(invalid(&format!("segment[{at}] may not be empty")));
            continue;
        }
        let found = names::subdomain(step);
        faults.extend(found.iter().map(|detail| invalid(&format!("segment[{at}]: {detail}"))));
    }
}
