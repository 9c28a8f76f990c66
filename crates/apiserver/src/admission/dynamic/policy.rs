//! What policies have in common: the bindings, the match conditions, and which of them concern a request.

use std::sync::Arc;

use flyball_cel::Value as Cel;
use serde_json::Value;

use super::Dynamic;
use super::attributes::Objects;
use super::expressions::{Activation, AuthorizationChecks, Compiler, Expression, Inputs, Wanted};
use super::matching::Constraints;
use super::params;
use crate::error::{ApiError, Named};
use crate::resource::Resource;

/// What all match conditions of one policy or webhook may cost; upstream's number.
const BUDGET: u64 = 2_500_000;

/// What happens when a policy cannot be evaluated or a webhook cannot be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFailure {
    Fail,
    Ignore,
}

impl OnFailure {
    pub(super) fn read(of: &Value) -> Self {
        if of["failurePolicy"] == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// Where a policy applies.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) spec: Value,
    resources: Option<Constraints>,
}

impl Binding {
    pub(super) fn read(object: &Value) -> Self {
        let spec = object["spec"].clone();
        let resources = spec.get("matchResources").map(Constraints::read);
        Self { name: crate::meta::text(object, "name").to_owned(), spec, resources }
    }

    pub(super) fn policy(&self) -> &str {
        self.spec["policyName"].as_str().unwrap_or_default()
    }

    fn matches(&self, dynamic: &Dynamic<'_>, objects: &Objects<'_>) -> Result<bool, String> {
        let Some(resources) = &self.resources else { return Ok(true) };
        let matched = resources.matched(dynamic.server, &dynamic.attributes, objects);
        matched.map(|matched| matched.is_some()).map_err(|error| error.message)
    }
}

/// What validating and mutating policies have in common: everything but what they do.
pub(super) struct Common {
    pub(super) name: String,
    constraints: Constraints,
    param_kind: Option<Value>,
    pub(super) on_failure: OnFailure,
    /// Has the variables of the policy.
    pub(super) compiler: Compiler,
    conditions: Conditions,
    /// What puts the policy into effect.
    pub(super) bindings: Vec<Binding>,
}

impl Common {
    pub(super) fn read(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let compiler = Compiler::of_policy(spec);
        let on_failure = OnFailure::read(spec);
        Self {
            name: crate::meta::text(policy, "name").to_owned(),
            constraints: Constraints::read(&spec["matchConstraints"]),
            param_kind: spec.get("paramKind").cloned(),
            on_failure,
            conditions: Conditions::read(&spec["matchConditions"], &compiler, on_failure),
            compiler,
            bindings,
        }
    }

    /// The resource in whose version the policy sees the objects; `None` if it does not concern the request.
    pub(super) fn matched(
        &self,
        dynamic: &Dynamic<'_>,
        objects: &Objects<'_>,
    ) -> Result<Option<Arc<Resource>>, String> {
        let matched = self.constraints.matched(dynamic.server, &dynamic.attributes, objects);
        let Some(matched) = matched.map_err(|error| error.message)? else { return Ok(None) };
        if let Some(kind) = &self.param_kind {
            params::resource(dynamic.server, kind)?;
        }
        Ok(Some(matched))
    }

    /// The parameters with which the policy is evaluated, once with each, under a binding; `None` if the binding does not concern
    /// the request.
    pub(super) fn params(
        &self,
        dynamic: &Dynamic<'_>,
        objects: &Objects<'_>,
        binding: &Binding,
    ) -> Result<Option<Vec<Option<Value>>>, String> {
        if !binding.matches(dynamic, objects)? {
            return Ok(None);
        }
        let reference = binding.spec.get("paramRef");
        let namespace = &dynamic.attributes.namespace;
        params::collect(dynamic.server, self.param_kind.as_ref(), reference, namespace).map(Some)
    }

    /// Whether the match conditions hold.
    pub(super) fn conditions_hold<'a>(&'a self, inputs: &Inputs<'a>) -> Result<bool, String> {
        // Upstream: matchconditions/matcher.go, Match: conditions see no namespace.
        self.conditions.hold(&self.compiler, &Inputs { namespace: None, ..*inputs })
    }
}

/// The message about a mistake in a policy or in a binding of it.
pub(super) fn misconfigured(binding: Option<&Binding>, why: &str) -> String {
    let what = if binding.is_some() { "binding" } else { "policy" };
    format!("failed to configure {what}: {why}")
}

/// Conditions in CEL: all must hold, or the policy or webhook is skipped.
#[derive(Debug)]
pub(super) struct Conditions {
    conditions: Vec<Expression>,
    on_failure: OnFailure,
}

impl Conditions {
    /// Compiles `matchConditions`.
    pub(super) fn read(list: &Value, compiler: &Compiler, on_failure: OnFailure) -> Self {
        let list = list.as_array().into_iter().flatten();
        let texts = list.map(|condition| condition["expression"].as_str().unwrap_or_default());
        let conditions = texts.map(|text| compiler.compile(text, Wanted::Bool, true)).collect();
        Self { conditions, on_failure }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether all hold. A condition that is false settles it, whatever is wrong with others.
    pub(super) fn hold<'a>(&'a self, compiler: &'a Compiler, inputs: &Inputs<'a>) -> Result<bool, String> {
        let activation = Activation::new(&compiler.variables, inputs);
        let mut budget = BUDGET;
        let mut results = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            match activation.evaluate(condition, &mut budget) {
                Ok(result) => results.push(result),
                Err(why) => return self.failed(&[why]),
            }
        }
        if results.iter().any(|result| matches!(result, Ok(Cel::Bool(false)))) {
            return Ok(false);
        }
        let mut errors: Vec<String> = Vec::new();
        for error in results.into_iter().filter_map(Result::err) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if errors.is_empty() { Ok(true) } else { self.failed(&errors) }
    }

    fn failed(&self, errors: &[String]) -> Result<bool, String> {
        match (self.on_failure, errors) {
            (OnFailure::Ignore, _) => Ok(false),
            (OnFailure::Fail, [one]) => Err(one.clone()),
            (OnFailure::Fail, many) => Err(format!("[{}]", many.join(", "))),
        }
    }
}

impl<'a> Dynamic<'a> {
    /// The Namespace of the request; none for what is in no namespace.
    pub(super) fn namespace(&self) -> Result<Option<Value>, ApiError> {
        let name = self.attributes.namespace.as_str();
        if name.is_empty() || self.attributes.resource.is("", "namespaces") {
            return Ok(None);
        }
        let found = params::namespace(self.server, name);
        let missing = || ApiError::not_found(Named { group: "", what: "namespaces", name });
        found.map(Some).ok_or_else(missing)
    }

    /// Who answers questions about permissions.
    pub(super) fn checks<'b>(&'b self, objects: &'b Objects<'_>) -> AuthorizationChecks<'b> {
        AuthorizationChecks { server: self.server, attributes: &self.attributes, name: &objects.name }
    }
}
