//! ValidatingAdmissionPolicy: refuses, warns about or notes requests that break its expressions.

use std::collections::BTreeMap;

use flyball_cel::{RUNTIME_BUDGET, Value as Cel};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::attributes::Objects;
use super::expressions::{Activation, Expression, Inputs, Wanted};
use super::policy::{Binding, Common, OnFailure, misconfigured};
use super::{Dynamic, Shown};
use crate::error::ApiError;
use crate::resource::Resource;

/// No message that an expression makes is longer; upstream's number.
const LONGEST_MESSAGE: usize = 5 * 1024;
/// No annotation is longer; upstream's number.
const LONGEST_ANNOTATION: usize = 10 * 1024;
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A policy and the bindings that put it into effect.
pub(super) struct Policy {
    common: Common,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: Option<String>,
}

impl Policy {
    pub(super) fn read(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let common = Common::read(policy, bindings);
        let compiler = &common.compiler;
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let validations = list("validations").map(|validation| Validation {
            expression: compiler.compile(&text(validation, "expression"), Wanted::Bool, true),
            message: text(validation, "message"),
            message_expression: Some(text(validation, "messageExpression"))
                .filter(|text| !text.is_empty())
                .map(|text| compiler.compile(&text, Wanted::Text, false)),
            reason: validation["reason"].as_str().map(str::to_owned),
        });
        let annotations = list("auditAnnotations").map(|annotation| {
            let value = compiler.compile(&text(annotation, "valueExpression"), Wanted::TextOrNull, true);
            (text(annotation, "key"), value)
        });
        let (validations, annotations) = (validations.collect(), annotations.collect());
        Self { common, validations, annotations }
    }
}

/// What one expression says about the request.
enum Decision {
    Admit,
    Deny { message: String, reason: Option<String> },
}

/// What a policy says about the request with one set of parameters.
#[derive(Default)]
struct Verdict {
    decisions: Vec<Decision>,
    annotations: Vec<(String, String)>,
    /// Annotations that could not be computed. They refuse the request, whatever the actions of the binding.
    failed_annotations: Vec<String>,
}

/// The first reason to refuse the request; there may be more.
struct Denied {
    message: String,
    reason: Option<String>,
}

/// Lets all policies judge a request.
pub(super) async fn judge(dynamic: &Dynamic<'_>, objects: &Objects<'_>) -> Result<(), ApiError> {
    let mut denied: Option<Denied> = None;
    for policy in &dynamic.set.validating {
        let found = policy.judge(dynamic, objects).await?;
        denied = denied.or(found);
    }
    let Some(Denied { message, reason }) = denied else { return Ok(()) };
    let reason = reason.unwrap_or_else(|| "Invalid".to_owned());
    let mut error = dynamic.attributes.forbidden(objects, &message).with_cause(json!({"message": message}));
    error.code = match reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    error.reason = SmolStr::from(reason);
    Err(error)
}

impl Policy {
    async fn judge(&self, dynamic: &Dynamic<'_>, objects: &Objects<'_>) -> Result<Option<Denied>, ApiError> {
        let matched = match self.common.matched(dynamic, objects) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(None),
            Err(why) => return Ok(self.misconfigured(None, &why)),
        };
        let mut denied = None;
        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in &self.common.bindings {
            let found = self.judge_bound(dynamic, objects, &matched, binding, &mut annotations).await?;
            denied = denied.or(found);
        }
        for (key, values) in annotations {
            dynamic.notes.annotate(format!("{}/{key}", self.common.name), values.join(", "));
        }
        Ok(denied)
    }

    async fn judge_bound(
        &self,
        dynamic: &Dynamic<'_>,
        objects: &Objects<'_>,
        matched: &Resource,
        binding: &Binding,
        annotations: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<Option<Denied>, ApiError> {
        let params = match self.common.params(dynamic, objects, binding) {
            Ok(Some(params)) => params,
            Ok(None) => return Ok(None),
            Err(why) => return Ok(self.misconfigured(Some(binding), &why)),
        };
        let mut denied = None;
        let namespace = dynamic.namespace()?;
        let shown = dynamic.shown(objects, matched).await?;
        for params in &params {
            let verdict =
                self.evaluate(dynamic, (objects, &shown), matched, params.as_ref(), namespace.as_ref());
            for (index, decision) in verdict.decisions.into_iter().enumerate() {
                let Decision::Deny { message, reason } = decision else { continue };
                let found = self.act(dynamic, binding, index, message, reason);
                denied = denied.or(found);
            }
            for (key, value) in verdict.annotations {
                let values = annotations.entry(key).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            for why in verdict.failed_annotations {
                denied = denied.or_else(|| Some(self.denied(Some(binding), &why, None)));
            }
        }
        Ok(denied)
    }

    /// Does what the binding asks for when a validation fails.
    fn act(
        &self,
        dynamic: &Dynamic<'_>,
        binding: &Binding,
        index: usize,
        message: String,
        reason: Option<String>,
    ) -> Option<Denied> {
        let mut denied = None;
        let actions = &binding.spec["validationActions"];
        for action in actions.as_array().into_iter().flatten().filter_map(Value::as_str) {
            match action {
                "Deny" => denied = Some(self.denied(Some(binding), &message, reason.clone())),
                "Warn" => dynamic.notes.warn([format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    self.common.name, binding.name
                )]),
                "Audit" => {
                    // The fields in the order in which upstream writes them.
                    let value = format!(
                        "[{{\"message\":{},\"policy\":{},\"binding\":{},\"expressionIndex\":{index},\"validationActions\":{actions}}}]",
                        json!(message),
                        json!(self.common.name),
                        json!(binding.name),
                    );
                    dynamic.notes.annotate(FAILURE, value);
                }
                _ => {}
            }
        }
        denied
    }

    fn denied(&self, binding: Option<&Binding>, message: &str, reason: Option<String>) -> Denied {
        let with = binding.map_or(String::new(), |binding| format!(" with binding '{}'", binding.name));
        Denied {
            message: format!(
                "ValidatingAdmissionPolicy '{}'{with} denied request: {message}",
                self.common.name
            ),
            reason,
        }
    }

    /// What a mistake in the policy or the binding means for the request.
    fn misconfigured(&self, binding: Option<&Binding>, why: &str) -> Option<Denied> {
        match self.common.on_failure {
            OnFailure::Ignore => None,
            OnFailure::Fail => Some(self.denied(binding, &misconfigured(binding, why), None)),
        }
    }

    fn evaluate(
        &self,
        dynamic: &Dynamic<'_>,
        (objects, shown): (&Objects<'_>, &Shown),
        matched: &Resource,
        params: Option<&Value>,
        namespace: Option<&Value>,
    ) -> Verdict {
        let attributes = &dynamic.attributes;
        let request = attributes.request(objects, matched);
        let checks = dynamic.checks(objects);
        let inputs = Inputs {
            object: shown.new.as_ref(),
            old: shown.old.as_ref(),
            request: &request,
            params,
            namespace,
            authorizer: Some(&checks),
        };
        match self.common.conditions_hold(&inputs) {
            Ok(true) => self.validate(&inputs),
            Ok(false) => Verdict::default(),
            Err(why) => self.failed(why),
        }
    }

    fn failed(&self, why: String) -> Verdict {
        Verdict { decisions: vec![self.on_error(why)], ..Verdict::default() }
    }

    fn on_error(&self, message: String) -> Decision {
        match self.common.on_failure {
            OnFailure::Fail => Decision::Deny { message, reason: None },
            OnFailure::Ignore => Decision::Admit,
        }
    }

    fn validate<'a>(&'a self, inputs: &Inputs<'a>) -> Verdict {
        let mut budget = RUNTIME_BUDGET;
        let activation = Activation::new(&self.common.compiler.variables, inputs);
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            match activation.evaluate(&validation.expression, &mut budget) {
                Ok(result) => results.push(result),
                Err(why) => return self.failed(why),
            }
        }
        let messages = self.messages(&Inputs { authorizer: None, ..*inputs }, budget);
        let mut verdict = Verdict::default();
        for (at, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            verdict.decisions.push(match (result, &messages) {
                (Err(why), _) => self.on_error(why),
                (Ok(_), Err(why)) => self.on_error(format!("failed messageExpression: {why}")),
                (Ok(Cel::Bool(true)), _) => Decision::Admit,
                (Ok(_), Ok(messages)) => Decision::Deny {
                    message: validation.message(messages.get(at).cloned().flatten()),
                    reason: validation.reason.clone(),
                },
            });
        }
        self.annotate(inputs, verdict)
    }

    /// The messages that expressions make, whether they are needed or not. They are computed without the authorizer.
    fn messages<'a>(&'a self, inputs: &Inputs<'a>, budget: u64) -> Result<Vec<Option<String>>, String> {
        let mut budget = budget;
        let activation = Activation::new(&self.common.compiler.variables, inputs);
        let mut messages = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let made = match &validation.message_expression {
                Some(expression) => Some(activation.evaluate(expression, &mut budget)?),
                None => None,
            };
            messages.push(match made {
                Some(Ok(Cel::String(text))) => Some(text.to_string()),
                _ => None,
            });
        }
        Ok(messages)
    }

    fn annotate<'a>(&'a self, inputs: &Inputs<'a>, mut verdict: Verdict) -> Verdict {
        let mut budget = RUNTIME_BUDGET;
        // Upstream: validator.go, Validate: annotations are computed without the authorizer, although it is declared.
        let inputs = Inputs { authorizer: None, ..*inputs };
        let activation = Activation::new(&self.common.compiler.variables, &inputs);
        for (key, expression) in &self.annotations {
            match activation.evaluate(expression, &mut budget) {
                Err(why) => return self.failed(why),
                Ok(Ok(Cel::String(text))) => {
                    let text = text.trim();
                    if !text.is_empty() {
                        let end = text.floor_char_boundary(LONGEST_ANNOTATION.min(text.len()));
                        verdict.annotations.push((key.clone(), text[..end].to_owned()));
                    }
                }
                Ok(Ok(_)) => {}
                Ok(Err(why)) if self.common.on_failure == OnFailure::Fail => {
                    verdict.failed_annotations.push(why)
                }
                Ok(Err(_)) => {}
            }
        }
        verdict
    }
}

impl Validation {
    /// The message for the client: the result of `messageExpression` if it is valid, else `message`, else the expression.
    fn message(&self, made: Option<String>) -> String {
        let fits = |text: &String| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        let made = made.map(|text| text.trim().to_owned()).filter(fits);
        made.unwrap_or_else(|| match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.text.trim()),
            message => message.to_owned(),
        })
    }
}
