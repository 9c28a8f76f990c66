//! Whether the validation rules in a CustomResourceDefinition are valid, with the error messages of the real server.

use flyball_cel::{Schema, Type};
use serde_json::Value;

use super::{Kind, RULES, compile, environments, field_path};
use crate::invalid::Cause;

/// The problems in the rules of a CustomResourceDefinition.
pub(crate) fn faults(schema: &Value, path: &str) -> Vec<Cause> {
    let mut found = Faults::default();
    examine(schema, path, true, None, &mut found);
    found.of_shape.extend(found.of_rules);
    found.of_shape
}

/// Rules are compiled only if they and the rules below have the right shape.
#[derive(Default)]
struct Faults {
    of_shape: Vec<Cause>,
    of_rules: Vec<Cause>,
}

fn examine(schema: &Value, path: &str, is_root: bool, loose: Option<&str>, found: &mut Faults) {
    let before = found.of_shape.len();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        examine(inner, &format!("{path}.properties[{name}]"), false, loose, found);
    }
    let is_atomic_map = schema["x-kubernetes-map-type"] == "atomic";
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        let loose = if is_atomic_map { Some(path) } else { loose };
        examine(inner, &format!("{path}.additionalProperties"), false, loose, found);
    }
    if let Some(inner) = schema.get("items").filter(|inner| inner.is_object()) {
        let is_map = schema["x-kubernetes-list-type"] == "map";
        let here = format!("{path}.items");
        let loose = if is_map { loose } else { loose.or(Some(path)) };
        examine(inner, &here, false, loose, found);
    }
    let declared = schema[RULES].as_array().map(Vec::as_slice).unwrap_or_default();
    if declared.is_empty() {
        return;
    }
    for (at, rule) in declared.iter().enumerate() {
        shape_faults(rule, schema, &format!("{path}.{RULES}[{at}]"), &mut found.of_shape);
    }
    if found.of_shape.len() > before {
        return;
    }
    let typed = Schema::read(schema, "selfType", is_root || schema["x-kubernetes-embedded-resource"] == true);
    let [plain, optional] = environments(&typed);
    for (at, rule) in declared.iter().enumerate() {
        let text = |key: &str| rule[key].as_str().unwrap_or_default();
        let here = format!("{path}.{RULES}[{at}]");
        let env = if rule["optionalOldSelf"] == true { &optional } else { &plain };
        let program = compile(text("rule"), env, &Type::Bool, Kind::Rule);
        if let Err(why) = &program {
            found.of_rules.push(Cause::invalid(format!("{here}.rule"), shown(rule), why));
            continue;
        }
        if !text("messageExpression").is_empty()
            && let Err(why) = compile(text("messageExpression"), env, &Type::String, Kind::Message)
        {
            found.of_rules.push(Cause::invalid(format!("{here}.messageExpression"), shown(rule), &why));
        }
        let uses_old = program.is_ok_and(|program| program.refers_to("oldSelf"));
        if uses_old && let Some(loose) = loose {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}");
            found.of_rules.push(Cause::invalid(format!("{here}.rule"), text("rule"), &detail));
        } else if !uses_old && let Some(value) = rule.get("optionalOldSelf") {
            let detail = "may not be set if oldSelf is not used in rule";
            found.of_rules.push(Cause::invalid(format!("{here}.optionalOldSelf"), value.clone(), detail));
        }
    }
}

/// A rule as the real server quotes it in errors.
fn shown(rule: &Value) -> Value {
    let mut shown = serde_json::Map::new();
    for (key, go) in [
        ("rule", "Rule"),
        ("message", "Message"),
        ("messageExpression", "MessageExpression"),
        ("reason", "Reason"),
        ("fieldPath", "FieldPath"),
        ("optionalOldSelf", "OptionalOldSelf"),
    ] {
        let empty = if matches!(key, "reason" | "optionalOldSelf") { Value::Null } else { "".into() };
        shown.insert(go.to_owned(), rule.get(key).cloned().unwrap_or(empty));
    }
    Value::Object(shown)
}

fn shape_faults(rule: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let (body, message) = (text("rule").trim(), text("message").trim());
    if body.is_empty() {
        causes.push(Cause::required(format!("{path}.rule"), "rule is not specified"));
    } else if !text("message").is_empty() && message.is_empty() {
        causes.push(Cause::invalid(
            format!("{path}.message"),
            text("message"),
            "must be non-empty if specified",
        ));
    } else if message.contains('\n') {
        causes.push(Cause::invalid(
            format!("{path}.message"),
            text("message"),
            "must not contain line breaks",
        ));
    } else if body.contains('\n') && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(format!("{path}.message"), detail));
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(format!("{path}.messageExpression"), detail));
    }
    let known = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if let Some(reason) = rule["reason"].as_str().filter(|reason| !known.contains(reason)) {
        causes.push(Cause::not_supported(format!("{path}.reason"), reason, &known));
    }
    let field = text("fieldPath");
    if !field.is_empty() && field_path(field, schema).is_none() {
        causes.push(Cause::invalid(format!("{path}.fieldPath"), field, "must be a valid path"));
    }
}
