//! Admission policies and their bindings. Expressions that do not compile are refused.

use std::collections::BTreeSet;

use flyball_cel::is_identifier;
use serde_json::Value;

use super::{At, Faults, names, rules, selector};
use crate::admission::{Compiler, Expression, Wanted};
use crate::invalid::Cause;
use crate::kinds::json::Json;

const MOST_CONDITIONS: usize = 64;
const MOST_ANNOTATIONS: usize = 20;
const LONGEST_ANNOTATION: usize = 5 * 1024;

pub(in crate::kinds) fn validating_policy(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    common(&mut faults, &spec, old);
    let mut compiler = compiler(&spec, spec.value.items("variables").is_empty());
    variables(&mut faults, &spec, &mut compiler);
    if spec.value.items("validations").is_empty() && spec.value.items("auditAnnotations").is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            faults.push(Cause::required(spec.path(field), detail));
        }
        return faults;
    }
    for validation in spec.items("validations") {
        validation_faults(&mut faults, &validation, &compiler);
    }
    annotations(&mut faults, object, &spec, &compiler);
    faults
}

pub(in crate::kinds) fn validating_binding(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    binding(&mut faults, &spec);
    actions(&mut faults, &spec);
    faults
}

pub(in crate::kinds) fn mutating_policy(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    common(&mut faults, &spec, old);
    let mut compiler = compiler(&spec, false);
    variables(&mut faults, &spec, &mut compiler);
    if spec.value.items("mutations").is_empty() {
        faults.push(Cause::required(spec.path("mutations"), "mutations must contain at least one item"));
    }
    for mutation in spec.items("mutations") {
        mutation_faults(&mut faults, &mutation, &compiler);
    }
    match spec.text("reinvocationPolicy") {
        "" => faults.push(Cause::required(spec.path("reinvocationPolicy"), "")),
        _ => spec.one_of(&mut faults, "reinvocationPolicy", &["IfNeeded", "Never"]),
    }
    faults
}

pub(in crate::kinds) fn mutating_binding(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    binding(&mut faults, &At::root(object).child("spec"));
    faults
}

/// What policies of both kinds have: a failure policy, parameters, constraints and conditions.
fn common(faults: &mut Faults, spec: &At<'_>, old: Option<&Value>) {
    match spec.text("failurePolicy") {
        "" => faults.push(Cause::required(spec.path("failurePolicy"), "")),
        _ => spec.one_of(faults, "failurePolicy", &["Fail", "Ignore"]),
    }
    if spec.has("paramKind") {
        param_kind(faults, &spec.child("paramKind"));
    }
    if spec.has("matchConstraints") {
        let constraints = spec.child("matchConstraints");
        match_resources(faults, &constraints);
        if constraints.value.items("resourceRules").is_empty() {
            faults.push(Cause::required(constraints.path("resourceRules"), ""));
        }
        if spec.has("mutations") {
            operations_to_mutate(faults, &constraints);
        }
    } else {
        faults.push(Cause::required(spec.path("matchConstraints"), ""));
    }
    // Conditions that were valid stay so, also if the language changes.
    let fields = ["spec.paramKind", "spec.matchConditions"];
    let is_same = old.is_some_and(|old| {
        fields.iter().all(|path| old.at(path) == spec.value.at(path.trim_start_matches("spec.")))
    });
    if !is_same {
        conditions(faults, spec, spec.has("paramKind"));
    }
}

/// There is nothing to change in what is deleted.
fn operations_to_mutate(faults: &mut Faults, constraints: &At<'_>) {
    let known = ["*", "CONNECT", "CREATE", "UPDATE"];
    let rules = constraints.value.items("resourceRules").iter();
    for operation in rules.flat_map(|rule| rule.items("operations")).filter_map(Value::as_str) {
        if !known.contains(&operation) {
            let path = constraints.path("resourceRules.operations");
            faults.push(Cause::not_supported(path, operation, &known));
        }
    }
}

fn param_kind(faults: &mut Faults, kind: &At<'_>) {
    let joined = |faults: Vec<String>| faults.join(",");
    if kind.require(faults, "apiVersion") {
        let text = kind.text("apiVersion");
        let invalid = |value: &str, detail: String| Cause::invalid(kind.path("apiVersion"), value, &detail);
        match text.split('/').collect::<Vec<_>>()[..] {
            [group, version] if !names::subdomain(group).is_empty() && !group.is_empty() => {
                faults.push(invalid(group, joined(names::subdomain(group))));
                version_faults(faults, kind, version);
            }
            [_, version] | [version] => version_faults(faults, kind, version),
            _ => faults.push(invalid(text, format!("unexpected GroupVersion string: {text}"))),
        }
    }
    if kind.require(faults, "kind") {
        let found = names::label_1035(&kind.text("kind").to_lowercase());
        if !found.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", joined(found));
            faults.push(Cause::invalid(kind.path("kind"), kind.text("kind"), &detail));
        }
    }
}

fn version_faults(faults: &mut Faults, kind: &At<'_>, version: &str) {
    let path = kind.path("apiVersion");
    if version.is_empty() {
        faults.push(Cause::invalid(path, kind.text("apiVersion"), "version must be specified"));
        return;
    }
    let found = names::label_1035(version);
    if !found.is_empty() {
        faults.push(Cause::invalid(path, version, &found.join(",")));
    }
}

/// `matchConstraints` of policies and `matchResources` of bindings.
fn match_resources(faults: &mut Faults, at: &At<'_>) {
    match at.text("matchPolicy") {
        "" => faults.push(Cause::required(at.path("matchPolicy"), "")),
        _ => at.one_of(faults, "matchPolicy", &["Equivalent", "Exact"]),
    }
    for field in ["namespaceSelector", "objectSelector"] {
        match at.has(field) {
            true => selector::check(faults, &at.child(field)),
            false => faults.push(Cause::required(at.path(field), "")),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in at.items(field) {
            rules::with_names(faults, &rule);
        }
    }
}

/// `matchConditions`, of policies and of webhooks.
pub(super) fn conditions(faults: &mut Faults, of: &At<'_>, has_params: bool) {
    let compiler = Compiler::plain(has_params);
    let count = of.value.items("matchConditions").len();
    if count > MOST_CONDITIONS {
        faults.push(Cause::too_many(of.path("matchConditions"), count, MOST_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for condition in of.items("matchConditions") {
        match condition.text("expression").trim() {
            "" => faults.push(Cause::required(condition.path("expression"), "")),
            text => {
                let expression = compiler.compile(text, Wanted::Bool, true);
                uncompiled(faults, condition.path("expression"), &expression, text);
            }
        }
        let name = condition.text("name");
        if condition.require(faults, "name") {
            condition.must_be(faults, "name", names::qualified_name);
            if !seen.insert(name) {
                faults.push(Cause::duplicate(condition.path("name"), name));
            }
        }
    }
}

fn compiler(spec: &At<'_>, is_plain: bool) -> Compiler {
    let has_params = spec.has("paramKind");
    if is_plain { Compiler::plain(has_params) } else { Compiler::composing(has_params) }
}

fn uncompiled(faults: &mut Faults, path: String, expression: &Expression, shown: &str) {
    if let Err(why) = &expression.program {
        faults.push(Cause::invalid(path, shown, why));
    }
}

fn variables(faults: &mut Faults, spec: &At<'_>, compiler: &mut Compiler) {
    for variable in spec.items("variables") {
        let (name, text) = (variable.text("name"), variable.text("expression"));
        if name.trim().is_empty() {
            faults.push(Cause::required(variable.path("name"), "name is not specified"));
        } else if !is_identifier(name) {
            faults.push(Cause::invalid(variable.path("name"), name, "must be a valid CEL identifier"));
        }
        if text.trim().is_empty() {
            faults.push(Cause::required(variable.path("expression"), "expression is not specified"));
        } else {
            uncompiled(faults, variable.path("expression"), compiler.declare(name, text), text);
        }
    }
}

fn validation_faults(faults: &mut Faults, validation: &At<'_>, compiler: &Compiler) {
    let text = validation.text("expression");
    if text.trim().is_empty() {
        faults.push(Cause::required(validation.path("expression"), "expression is not specified"));
    } else {
        let expression = compiler.compile(text, Wanted::Bool, true);
        uncompiled(faults, validation.path("expression"), &expression, text);
    }
    let (made, message) = (validation.text("messageExpression"), validation.text("message"));
    let empty = "must be non-empty if specified";
    if !made.trim().is_empty() {
        let expression = compiler.compile(made, Wanted::Text, false);
        uncompiled(faults, validation.path("messageExpression"), &expression, made);
    } else if !made.is_empty() {
        faults.push(Cause::invalid(validation.path("messageExpression"), made, empty));
    }
    if !message.is_empty() && message.trim().is_empty() {
        faults.push(Cause::invalid(validation.path("message"), message, empty));
    } else if message.trim().contains(['\n', '\r']) {
        faults.push(Cause::invalid(validation.path("message"), message, "must not contain line breaks"));
    }
    validation.one_of(faults, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn annotations(faults: &mut Faults, object: &Value, spec: &At<'_>, compiler: &Compiler) {
    if spec.value.items("auditAnnotations").len() > MOST_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        faults.push(spec.child("auditAnnotations").invalid(&detail));
    }
    let policy = object.text("metadata.name");
    let mut seen = BTreeSet::new();
    for annotation in spec.items("auditAnnotations") {
        let key = annotation.text("key");
        let path = annotation.path("key");
        if policy.is_empty() {
            faults.push(Cause::invalid(path.clone(), key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{policy}/{key}");
            let found = names::qualified_name(&whole);
            let invalid = |detail: &String| Cause::invalid(path.clone(), whole.as_str(), detail);
            faults.extend(found.iter().map(invalid));
        }
        let text = annotation.text("valueExpression");
        let value_path = annotation.path("valueExpression");
        match text.trim() {
            "" => faults.push(Cause::required(value_path, "valueExpression is not specified")),
            trimmed if trimmed.len() > LONGEST_ANNOTATION => {
                let detail = format!("must not exceed {LONGEST_ANNOTATION} bytes in length");
                faults.push(Cause::required(value_path, &detail));
            }
            trimmed => {
                let expression = compiler.compile(trimmed, Wanted::TextOrNull, true);
                uncompiled(faults, value_path, &expression, text);
            }
        }
        if !seen.insert(key) {
            faults.push(Cause::duplicate(path, key));
        }
    }
}

fn mutation_faults(faults: &mut Faults, mutation: &At<'_>, compiler: &Compiler) {
    let kinds = [
        ("JSONPatch", "jsonPatch", Wanted::JsonPatch),
        ("ApplyConfiguration", "applyConfiguration", Wanted::ApplyConfiguration),
    ];
    let patch_type = mutation.text("patchType");
    if patch_type.is_empty() {
        faults.push(Cause::required(mutation.path("patchType"), ""));
        return;
    }
    mutation.one_of(faults, "patchType", &["ApplyConfiguration", "JSONPatch"]);
    let Some((_, field, wanted)) = kinds.iter().find(|(name, ..)| *name == patch_type) else { return };
    if mutation.has(field) {
        let text = mutation.child(field).text("expression").trim();
        let path = mutation.child(field).path("expression");
        match text {
            "" => faults.push(Cause::required(path, "")),
            text => uncompiled(faults, path, &compiler.compile(text, *wanted, true), text),
        }
    } else {
        let detail = format!("must be specified when patchType is {patch_type}");
        faults.push(Cause::required(mutation.path(field), &detail));
    }
    for (_, other, _) in kinds.iter().filter(|(name, other, _)| *name != patch_type && mutation.has(other)) {
        let detail = format!("must not be specified when patchType is {patch_type}");
        faults.push(Cause::invalid(mutation.path(other), format!("{{{other}}}"), &detail));
    }
}

/// What bindings of both kinds have.
fn binding(faults: &mut Faults, spec: &At<'_>) {
    spec.must_be_named(faults, "policyName", names::subdomain);
    if spec.has("paramRef") {
        param_ref(faults, &spec.child("paramRef"));
    }
    if spec.has("matchResources") {
        match_resources(faults, &spec.child("matchResources"));
    }
}

fn param_ref(faults: &mut Faults, reference: &At<'_>) {
    let (has_name, has_selector) = (!reference.text("name").is_empty(), reference.has("selector"));
    let both = "name and selector are mutually exclusive";
    if has_name {
        reference.must_be(faults, "name", names::path_segment);
        if has_selector {
            faults.push(Cause::forbidden(reference.path("name"), both));
        }
    }
    if has_selector {
        selector::check(faults, &reference.child("selector"));
        if has_name {
            faults.push(Cause::forbidden(reference.path("selector"), both));
        }
    }
    if !has_name && !has_selector {
        let detail = "one of name or selector must be specified";
        faults.push(Cause::required(reference.path.clone(), detail));
    }
    match reference.text("parameterNotFoundAction") {
        "" => faults.push(Cause::required(reference.path("parameterNotFoundAction"), "")),
        _ => reference.one_of(faults, "parameterNotFoundAction", &["Deny", "Allow"]),
    }
}

fn actions(faults: &mut Faults, spec: &At<'_>) {
    let known = ["Audit", "Deny", "Warn"];
    let mut seen = BTreeSet::new();
    for action in spec.items("validationActions") {
        let text = action.value.as_str().unwrap_or_default();
        action.one_of(faults, "", &known);
        if !seen.insert(text) {
            faults.push(Cause::duplicate(action.path.clone(), text));
        }
    }
    let path = spec.path("validationActions");
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        faults.push(Cause::invalid(path, spec.value.at("validationActions").clone(), detail));
    } else if seen.is_empty() {
        faults.push(Cause::required(path, "at least one validation action is required"));
    }
}
