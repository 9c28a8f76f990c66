//! Expressions of policies and of match conditions: what they may refer to, what compiling and evaluating them gives, and
//! what they may cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_cel::admission::{self, VARIABLES};
use flyball_cel::authz::{Authorize, Decision, Question, ResourceCheck, Subject};
use flyball_cel::{
    Checker, Env, Error, Fields, Opaque, PER_CALL_LIMIT, Program, Refusal, Type, Value as Cel, Variables,
};
use parking_lot::Mutex;
use serde_json::Value;
use smol_str::SmolStr;

use super::attributes::Attributes;
use crate::authz;
use crate::registry::User;
use crate::server::Inner;

const REQUEST_RESOURCE: &str = "authorizer.requestResource";
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Bool,
    Text,
    TextOrNull,
    /// A list of `JSONPatch{…}`.
    JsonPatch,
    /// `Object{…}`.
    ApplyConfiguration,
    Anything,
}

impl Wanted {
    fn types(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::String],
            Self::TextOrNull => vec![Type::String, Type::Null],
            Self::JsonPatch => vec![Type::list(Type::named("JSONPatch"))],
            Self::ApplyConfiguration => vec![Type::named("Object")],
            Self::Anything => vec![],
        }
    }

    fn is_patch(self) -> bool {
        matches!(self, Self::JsonPatch | Self::ApplyConfiguration)
    }
}

/// An expression, and the program that it is; or why it is none.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) text: String,
    pub(crate) program: Result<Program, String>,
}

/// Compiles the expressions of one policy or webhook. Each may refer to the variables compiled before it.
#[derive(Debug)]
pub(crate) struct Compiler {
    has_params: bool,
    fields: Option<Fields>,
    pub(crate) variables: Vec<(SmolStr, Expression)>,
}

impl Compiler {
    /// For expressions that know no variables: match conditions of webhooks, and all conditions when they are validated.
    pub(crate) fn plain(has_params: bool) -> Self {
        Self { has_params, fields: None, variables: Vec::new() }
    }

    /// For the expressions of a policy.
    pub(crate) fn composing(has_params: bool) -> Self {
        Self { fields: Some(Fields::new()), ..Self::plain(has_params) }
    }

    /// The same, with the variables that the policy declares.
    pub(crate) fn of_policy(spec: &Value) -> Self {
        let mut compiler = Self::composing(spec.get("paramKind").is_some());
        for variable in spec["variables"].as_array().into_iter().flatten() {
            let text = |field: &str| variable[field].as_str().unwrap_or_default();
            compiler.declare(text("name"), text("expression"));
        }
        compiler
    }

    /// Compiles a variable, which later expressions may refer to. One that does not compile may be anything.
    pub(crate) fn declare(&mut self, name: &str, text: &str) -> &Expression {
        let expression = self.compile(text, Wanted::Anything, true);
        let of = expression
            .program
            .as_ref()
            .map_or(Type::Dyn, |program| admission::variable_type(program.result_type()));
        self.fields.get_or_insert_default().insert(name.into(), of);
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), expression));
        &self.variables[self.variables.len() - 1].1
    }

    pub(crate) fn compile(&self, text: &str, wanted: Wanted, has_authorizer: bool) -> Expression {
        let mut env = self.environment(has_authorizer);
        if wanted.is_patch() {
            env.patches();
        }
        Expression { text: text.to_owned(), program: compiled(text, &env, wanted) }
    }

    fn environment(&self, has_authorizer: bool) -> Env {
        let mut env = Env::default();
        admission::declare(&mut env);
        env.variable("object", Type::Dyn);
        env.variable("oldObject", Type::Dyn);
        if self.has_params {
            env.variable("params", Type::Dyn);
        }
        if has_authorizer {
            env.variable("authorizer", Type::named("kubernetes.authorization.Authorizer"));
            env.variable(REQUEST_RESOURCE, Type::named("kubernetes.authorization.ResourceCheck"));
        }
        if let Some(fields) = &self.fields {
            env.objects(Arc::new([(VARIABLES.into(), fields.clone())].into_iter().collect()));
            env.variable("variables", Type::named(VARIABLES));
        }
        env
    }
}

fn compiled(text: &str, env: &Env, wanted: Wanted) -> Result<Program, String> {
    let program = Program::compile(text, env).map_err(|refusal| match refusal {
        Refusal::Compilation(report) => format!("compilation failed: {report}"),
        Refusal::Program(why) => format!("program instantiation failed: {why}"),
    })?;
    let (found, types) = (program.result_type(), wanted.types());
    if types.is_empty() || types.contains(found) {
        return Ok(program);
    }
    let found = spelled(found);
    Err(match types.as_slice() {
        [one] => format!("must evaluate to {} but got {found}", spelled(one)),
        many => {
            let many: Vec<String> = many.iter().map(spelled).collect();
            format!("must evaluate to one of [{}] but got {found}", many.join(" "))
        }
    })
}

/// A type as cel-go spells it.
fn spelled(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::List(element) => format!("list({})", spelled(element)),
        Type::Map(key, value) => format!("map({}, {})", spelled(key), spelled(value)),
        other => other.to_string(),
    }
}

/// What expressions are evaluated with.
pub(crate) struct Inputs<'a> {
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
    pub(crate) request: &'a Value,
    pub(crate) params: Option<&'a Value>,
    pub(crate) namespace: Option<&'a Value>,
    pub(crate) authorizer: Option<&'a AuthorizationChecks<'a>>,
}

/// The values of names while the expressions of one kind (conditions, validations, messages) are evaluated. Variables are
/// computed when they are first asked for, and once.
pub(crate) struct Activation<'a> {
    values: BTreeMap<SmolStr, Cel<'a>>,
    variables: &'a [(SmolStr, Expression)],
    computed: Mutex<BTreeMap<SmolStr, Result<Cel<'a>, Error>>>,
    /// What variables have cost since it was last asked.
    cost: Mutex<u64>,
}

impl<'a> Activation<'a> {
    pub(crate) fn new(variables: &'a [(SmolStr, Expression)], inputs: &Inputs<'a>) -> Self {
        let value = |data: Option<&'a Value>| data.map_or(Cel::Null, Cel::of);
        let mut values: BTreeMap<SmolStr, Cel<'a>> = [
            ("object", value(inputs.object)),
            ("oldObject", value(inputs.old)),
            ("request", Cel::of(inputs.request)),
            ("params", value(inputs.params)),
            ("namespaceObject", value(inputs.namespace)),
            ("variables", Cel::Members(SmolStr::new_static(VARIABLES))),
        ]
        .into_iter()
        .map(|(name, value)| (SmolStr::new_static(name), value))
        .collect();
        if let Some(checks) = inputs.authorizer {
            let checker = Checker::of_requester(Arc::new(*checks));
            let check = Opaque::ResourceCheck(checker.clone(), Arc::new(checks.request_resource()));
            values.insert("authorizer".into(), Cel::Opaque(Opaque::Authorizer(checker)));
            values.insert(REQUEST_RESOURCE.into(), Cel::Opaque(check));
        }
        Self { values, variables, computed: Mutex::default(), cost: Mutex::default() }
    }

    /// Evaluates an expression and takes what it costs from the budget. The outer error ends the evaluation of all
    /// expressions.
    pub(crate) fn evaluate(
        &self,
        expression: &'a Expression,
        budget: &mut u64,
    ) -> Result<Result<Cel<'a>, String>, String> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let evaluation = program.evaluate(self, PER_CALL_LIMIT);
        let cost = std::mem::take(&mut *self.cost.lock()).saturating_add(evaluation.cost);
        if cost > *budget {
            return Err(OUT_OF_BUDGET.to_owned());
        }
        *budget -= cost;
        let text = &expression.text;
        Ok(evaluation.outcome.map_err(|error| format!("expression '{text}' resulted in error: {error}")))
    }
}

impl<'a> Variables<'a> for Activation<'a> {
    fn get(&self, name: &str) -> Option<Cel<'a>> {
        self.values.get(name).cloned()
    }

    fn member(&self, _: &str, name: &str) -> Option<Result<Cel<'a>, Error>> {
        if let Some(known) = self.computed.lock().get(name) {
            return Some(known.clone());
        }
        let (name, expression) = self.variables.iter().find(|(known, _)| known == name)?;
        let computed = match &expression.program {
            Err(why) => Err(Error::new(format!("composited variable {name:?} fails to compile: {why}"))),
            Ok(program) => {
                let evaluation = program.evaluate(self, PER_CALL_LIMIT);
                *self.cost.lock() += evaluation.cost;
                let failed =
                    |error| Error::new(format!("composited variable {name:?} fails to evaluate: {error}"));
                evaluation.outcome.map_err(failed)
            }
        };
        self.computed.lock().insert(name.clone(), computed.clone());
        Some(computed)
    }
}

/// Answers what expressions ask about permissions.
#[derive(Clone, Copy)]
pub(crate) struct AuthorizationChecks<'a> {
    pub(super) server: &'a Inner,
    pub(super) attributes: &'a Attributes,
    /// The name of the object.
    pub(super) name: &'a str,
}

impl AuthorizationChecks<'_> {
    fn request_resource(&self) -> ResourceCheck {
        let Attributes { resource, namespace, .. } = self.attributes;
        ResourceCheck {
            group: resource.group.to_string(),
            resource: resource.plural.to_string(),
            subresource: self.attributes.segment().to_owned(),
            namespace: namespace.clone(),
            name: self.name.to_owned(),
            ..ResourceCheck::default()
        }
    }
}

impl Authorize for AuthorizationChecks<'_> {
    fn decide(&self, question: &Question<'_>) -> Decision {
        let (subject, wanted) = match question {
            Question::Path { subject, verb, path } => {
                (subject, authz::Attributes { verb, path: Some(path), ..authz::Attributes::default() })
            }
            Question::Resource { subject, verb, of } => {
                let wanted = authz::Attributes {
                    verb,
                    namespace: &of.namespace,
                    group: &of.group,
                    resource: &of.resource,
                    subresource: &of.subresource,
                    name: &of.name,
                    path: None,
                    selected: &[],
                };
                (subject, wanted)
            }
        };
        let account;
        let user = match subject {
            Subject::Requester => &self.attributes.user,
            Subject::ServiceAccount { namespace, name } => {
                account = User {
                    name: format!("system:serviceaccount:{namespace}:{name}"),
                    groups: crate::authn::service_account_groups(namespace),
                    ..User::default()
                };
                &account
            }
        };
        let is_allowed = self.server.authz.allows(self.server, user, &wanted);
        Decision { is_allowed, ..Decision::default() }
    }
}
