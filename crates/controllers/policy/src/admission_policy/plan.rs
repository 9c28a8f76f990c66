//! What a policy's status has to say: which expressions do not fit the kinds that the policy is about. Pure.

use flyball_api::validating_admission_policy::{ExpressionWarning, ValidatingAdmissionPolicy};
use flyball_api::{Object, Resource};
use flyball_cel::{Env, check};
use serde_json::{Value, json};

use super::kinds::Kind;
use super::policy::Spec;
use super::variables::{ObjectType, Params, environment};

/// Whether the spec has changed since the status was written.
pub fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    policy.metadata.generation > policy.status.observed_generation
}

/// What to warn of, expression by expression, each checked against all kinds.
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

/// What is wrong with an expression, kind by kind.
fn warning(expression: &str, environments: &[(&Kind, Env)]) -> Option<String> {
    let reports = environments.iter().filter_map(|(kind, env)| {
        let report = check(expression, env).err()?;
        Some(format!("{kind}: {report}\n"))
    });
    let reports: Vec<String> = reports.collect();
    (!reports.is_empty()).then(|| reports.join("\n"))
}

/// What is applied: the generation that was checked and what was found. Nothing found is said by leaving it out.
pub(super) fn applied(policy: &ValidatingAdmissionPolicy, warnings: &[ExpressionWarning]) -> Value {
    let checked = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
    json!({
        "apiVersion": ValidatingAdmissionPolicy::TYPE.api_version(),
        "kind": ValidatingAdmissionPolicy::TYPE.kind,
        "metadata": {"name": policy.key().name},
        "status": {"observedGeneration": policy.metadata.generation, "typeChecking": checked},
    })
}
