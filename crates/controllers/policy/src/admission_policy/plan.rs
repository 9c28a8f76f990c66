//! The status of a policy: warnings about expressions that do not fit the kinds that the policy names. Pure.

use flyball_api::validating_admission_policy::{ExpressionWarning, ValidatingAdmissionPolicy};
use flyball_api::{Object, Resource};
use flyball_cel::{Env, check};
use flyball_client::Patch;
use flyball_runtime::{ErrorKinds, Plan, Write};
use serde_json::{Value, json};

use super::NAME;
use super::kinds::Kind;
use super::policy::Spec;
use super::variables::{ObjectType, Params, environment};

/// Whether the spec has changed since the status was written.
pub fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    policy.metadata.generation > policy.status.observed_generation
}

/// Everything that the decision depends on. Schemas are live reads: they are too large to be cached.
pub(super) struct View<'a> {
    pub(super) policy: &'a ValidatingAdmissionPolicy,
    pub(super) spec: &'a Spec,
    /// The kinds that the policy names and whose schemas are known.
    pub(super) kinds: &'a [(Kind, ObjectType)],
    pub(super) params: &'a Params,
}

/// Applies the warnings about the policy's expressions.
pub(super) fn plan(view: &View<'_>) -> Plan {
    let object = applied(view.policy, &warnings(view.spec, view.kinds, view.params));
    let patch = Patch::Apply { manager: NAME.into(), force: true, object };
    let write = Write::patch::<ValidatingAdmissionPolicy>(view.policy.key(), patch)
        .subresource("status")
        .ignore(ErrorKinds::NOT_FOUND)
        .why("its expressions have been checked");
    Plan::default().with_status(write)
}

/// The warnings of all expressions, each checked against all kinds.
pub(super) fn warnings(spec: &Spec, kinds: &[(Kind, ObjectType)], params: &Params) -> Vec<ExpressionWarning> {
    let environments: Vec<(&Kind, Env)> =
        kinds.iter().map(|(kind, object)| (kind, environment(object, params, &spec.variables))).collect();
    let mut warnings = vec![];
    for (at, validation) in spec.validations.iter().enumerate() {
        let message = Some(&validation.message_expression).filter(|message| !message.is_empty());
        let expressions = [("expression", Some(&validation.expression)), ("messageExpression", message)];
        for (field, expression) in expressions {
            let warning = expression.and_then(|expression| warning(expression, &environments));
            warnings.extend(warning.map(|warning| ExpressionWarning {
                field_ref: format!("spec.validations[{at}].{field}").into(),
                warning: warning.into(),
            }));
        }
    }
    warnings
}

/// The problems of an expression, kind by kind.
fn warning(expression: &str, environments: &[(&Kind, Env)]) -> Option<String> {
    let reports = environments.iter().filter_map(|(kind, env)| {
        let report = check(expression, env).err()?;
        Some(format!("{kind}: {report}\n"))
    });
    let reports: Vec<String> = reports.collect();
    (!reports.is_empty()).then(|| reports.join("\n"))
}

/// The fields that are applied: the generation that was checked, and the warnings if there are any.
fn applied(policy: &ValidatingAdmissionPolicy, warnings: &[ExpressionWarning]) -> Value {
    let checked = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
    json!({
        "apiVersion": ValidatingAdmissionPolicy::TYPE.api_version(),
        "kind": ValidatingAdmissionPolicy::TYPE.kind,
        "metadata": {"name": policy.key().name},
        "status": {"observedGeneration": policy.metadata.generation, "typeChecking": checked},
    })
}
