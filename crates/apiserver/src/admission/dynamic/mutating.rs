//! MutatingAdmissionPolicy: changes objects by apply configurations and JSON patches that expressions make.

use std::sync::Arc;

use flyball_cel::{List, RUNTIME_BUDGET, Value as Cel};
use serde_json::{Value, json};

use super::Dynamic;
use super::attributes::Objects;
use super::expressions::{Activation, Expression, Inputs, Wanted};
use super::policy::{Binding, Common, OnFailure, misconfigured};
use crate::error::ApiError;
use crate::resource::Resource;

/// A policy and the bindings that put it into effect.
pub(super) struct Policy {
    common: Common,
    mutations: Vec<Mutation>,
    sees_later_changes: bool,
}

enum Mutation {
    Apply(Expression),
    JsonPatch(Expression),
}

impl Policy {
    pub(super) fn read(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let common = Common::read(policy, bindings);
        let compiler = &common.compiler;
        let mutations = spec["mutations"].as_array().into_iter().flatten().map(|mutation| {
            let text = |field: &str| mutation[field]["expression"].as_str().unwrap_or_default();
            if mutation["patchType"] == "JSONPatch" {
                Mutation::JsonPatch(compiler.compile(text("jsonPatch"), Wanted::JsonPatch, true))
            } else {
                let wanted = Wanted::ApplyConfiguration;
                Mutation::Apply(compiler.compile(text("applyConfiguration"), wanted, true))
            }
        });
        let mutations = mutations.collect();
        Self { common, mutations, sees_later_changes: spec["reinvocationPolicy"] == "IfNeeded" }
    }

    fn failed(&self, binding: Option<&Binding>, why: &str) -> Failure {
        let name = &self.common.name;
        let message = match binding {
            Some(binding) => format!("policy '{name}' with binding '{}' denied request: {why}", binding.name),
            None => format!("policy {name:?} denied request: {why}"),
        };
        Failure { message, reason: None, on_failure: self.common.on_failure }
    }
}

/// A policy that could not be carried out.
struct Failure {
    message: String,
    reason: Option<&'static str>,
    on_failure: OnFailure,
}

/// One policy under one binding with one parameter.
struct Invocation<'a> {
    policy: &'a Policy,
    binding: &'a Binding,
    matched: Arc<Resource>,
    params: Option<Value>,
}

impl Invocation<'_> {
    fn id(&self) -> String {
        let params = self.params.as_ref().map_or(&Value::Null, |params| &params["metadata"]);
        let (name, namespace) = (&params["name"], &params["namespace"]);
        format!("{}/{}/{namespace}/{name}", self.policy.common.name, self.binding.name)
    }
}

/// Lets all policies change an object. Returns whether one did.
pub(super) async fn mutate(
    dynamic: &mut Dynamic<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<bool, ApiError> {
    let set = Arc::clone(&dynamic.set);
    let (mut invocations, mut failures) = (Vec::new(), Vec::new());
    for policy in &set.mutating {
        invocations_of(
            policy,
            dynamic,
            &dynamic.attributes.objects(Some(object), old),
            &mut invocations,
            &mut failures,
        );
    }
    let mut is_changed = false;
    if !invocations.is_empty() {
        dynamic.policies.begins(Some(object));
        for invocation in &invocations {
            is_changed |= invoke(invocation, dynamic, object, old, &mut failures).await?;
        }
        dynamic.policies.ends(Some(object));
    }
    let failures: Vec<Failure> =
        failures.into_iter().filter(|failure| failure.on_failure == OnFailure::Fail).collect();
    let Some(first) = failures.first() else { return Ok(is_changed) };
    // Upstream: policy_dispatcher.go, Dispatch: the status keeps the code of a refusal, whatever its reason.
    let mut error = dynamic.attributes.forbidden(&dynamic.attributes.objects(Some(object), old), "");
    error.message = first.message.clone();
    if let Some(reason) = first.reason {
        error.reason = reason.into();
    }
    Err(failures.iter().fold(error, |error, failure| error.with_cause(json!({"message": failure.message}))))
}

fn invocations_of<'p>(
    policy: &'p Policy,
    dynamic: &Dynamic<'_>,
    objects: &Objects<'_>,
    invocations: &mut Vec<Invocation<'p>>,
    failures: &mut Vec<Failure>,
) {
    let failed = |binding: Option<&Binding>, why: &str| policy.failed(binding, &misconfigured(binding, why));
    let matched = match policy.common.matched(dynamic, objects) {
        Ok(Some(matched)) => matched,
        Ok(None) => return,
        Err(why) => return failures.push(failed(None, &why)),
    };
    for binding in &policy.common.bindings {
        let invocation = |params| Invocation { policy, binding, matched: Arc::clone(&matched), params };
        match policy.common.params(dynamic, objects, binding) {
            Ok(params) => invocations.extend(params.into_iter().flatten().map(invocation)),
            Err(why) => failures.push(failed(Some(binding), &why)),
        }
    }
}

/// Carries out one policy. Returns whether it changed the object.
async fn invoke(
    invocation: &Invocation<'_>,
    dynamic: &mut Dynamic<'_>,
    object: &mut Value,
    old: Option<&Value>,
    failures: &mut Vec<Failure>,
) -> Result<bool, ApiError> {
    let policy = invocation.policy;
    let invalid =
        |why: &str| Failure { reason: Some("Invalid"), ..policy.failed(Some(invocation.binding), why) };
    let namespace = dynamic.namespace()?;
    {
        let prepared = InvocationInputs::new(invocation, dynamic, object, old, namespace.as_ref()).await?;
        match prepared.with_inputs(dynamic, |inputs| policy.common.conditions_hold(inputs)) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                failures.push(invalid(&why));
                return Ok(false);
            }
        }
    }
    let id = invocation.id();
    if !dynamic.policies.calls(&id) {
        return Ok(false);
    }
    let before = object.clone();
    for mutation in &policy.mutations {
        let patched = {
            let prepared =
                InvocationInputs::new(invocation, dynamic, object, old, namespace.as_ref()).await?;
            prepared.with_inputs(dynamic, |inputs| prepared.patched(mutation, inputs))
        };
        match patched {
            Ok(patched) => *object = dynamic.taken(object, patched, &invocation.matched).await?,
            Err(why) => failures.push(invalid(&why)),
        }
    }
    let is_changed = *object != before;
    if is_changed {
        dynamic.policies.changed();
    }
    if policy.sees_later_changes {
        dynamic.policies.called(&id);
    }
    Ok(is_changed)
}

/// The objects of an invocation as its policy sees them.
struct InvocationInputs<'a> {
    invocation: &'a Invocation<'a>,
    objects: Objects<'a>,
    new: Value,
    old: Option<Value>,
    request: Value,
    namespace: Option<&'a Value>,
}

impl<'a> InvocationInputs<'a> {
    async fn new(
        invocation: &'a Invocation<'a>,
        dynamic: &Dynamic<'_>,
        object: &'a Value,
        old: Option<&'a Value>,
        namespace: Option<&'a Value>,
    ) -> Result<Self, ApiError> {
        let attributes = &dynamic.attributes;
        let objects = attributes.objects(Some(object), old);
        let shown = dynamic.shown(&objects, &invocation.matched).await?;
        let (new, old) = (shown.new.unwrap_or_default(), shown.old);
        let request = attributes.request(&objects, &invocation.matched);
        Ok(Self { invocation, objects, new, old, request, namespace })
    }

    fn with_inputs<T>(&self, dynamic: &Dynamic<'_>, act: impl FnOnce(&Inputs<'_>) -> T) -> T {
        let checks = dynamic.checks(&self.objects);
        act(&Inputs {
            object: Some(&self.new),
            old: self.old.as_ref(),
            request: &self.request,
            params: self.invocation.params.as_ref(),
            namespace: self.namespace,
            authorizer: Some(&checks),
        })
    }

    /// The object after a mutation.
    fn patched(&self, mutation: &Mutation, inputs: &Inputs<'_>) -> Result<Value, String> {
        let (Mutation::Apply(expression) | Mutation::JsonPatch(expression)) = mutation;
        if let Err(why) = &expression.program {
            return Err(why.clone());
        }
        let variables = &self.invocation.policy.common.compiler.variables;
        let activation = Activation::new(variables, inputs);
        let made = activation.evaluate(expression, &mut { RUNTIME_BUDGET })??;
        match (mutation, made) {
            (Mutation::Apply(_), Cel::Message(message)) => {
                if let Some(why) = joined(message.misplaced()) {
                    return Err(format!("type mismatch: {why}"));
                }
                let mut config = Cel::Message(message).to_json()?;
                config["apiVersion"] = self.new["apiVersion"].clone();
                config["kind"] = self.new["kind"].clone();
                crate::apply::merged(&self.invocation.matched, &self.new, &config)
                    .map_err(|why| format!("error applying patch: {why}"))
            }
            (Mutation::JsonPatch(_), Cel::List(operations)) => self.json_patched(&operations),
            (_, other) => Err(format!("unsupported return type from expression: {}", other.type_name())),
        }
    }

    fn json_patched(&self, operations: &List<'_>) -> Result<Value, String> {
        let mut patch = Vec::with_capacity(operations.len());
        for operation in operations.iter() {
            let Cel::Message(operation) = operation else {
                return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
                    .to_owned());
            };
            if let Some(Cel::Message(value)) = operation.fields.get("value")
                && let Some(why) = joined(value.misplaced())
            {
                return Err(format!("type mismatch: {why}"));
            }
            patch.push(Cel::Message(operation).to_json()?);
        }
        let patch: json_patch::Patch =
            serde_json::from_value(Value::Array(patch)).map_err(|error| format!("JSON Patch: {error}"))?;
        let mut patched = self.new.clone();
        match json_patch::patch(&mut patched, &patch) {
            Ok(()) => Ok(patched),
            // A failed `test` operation means: apply nothing.
            Err(error) if matches!(error.kind, json_patch::PatchErrorKind::TestFailed) => {
                Ok(self.new.clone())
            }
            Err(error) => Err(format!("JSON Patch: {error}")),
        }
    }
}

fn joined(faults: Vec<String>) -> Option<String> {
    (!faults.is_empty()).then(|| faults.join("\n"))
}
