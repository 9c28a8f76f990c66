//! What the expressions of a policy may refer to: the object, the request, its namespace and so on. Pure.

use std::sync::Arc;

use flyball_cel::admission::{self, VARIABLES};
use flyball_cel::{Env, Fields, Type, check};

use super::policy::Variable;
use super::schema::Objects;

/// A type and what it consists of.
#[derive(Debug, Clone)]
pub(crate) struct ObjectType {
    /// The type; `None` if the schema has nothing that expressions could use.
    pub(crate) of: Option<Type>,
    pub(crate) objects: Arc<Objects>,
}

/// The parameters of a policy, as far as they are known.
#[derive(Debug, Clone)]
pub(crate) enum Params {
    None,
    /// Of a kind without a published schema.
    Unknown,
    Known(ObjectType),
}

/// The environment of a policy's expressions when it is applied to objects of this type.
pub(crate) fn environment(object: &ObjectType, params: &Params, variables: &[Variable]) -> Env {
    let mut env = Env::default();
    admission::declare(&mut env);
    env.variable("authorizer", Type::named("kubernetes.authorization.Authorizer"));
    let of = object.of.clone().unwrap_or(Type::Dyn);
    env.objects(object.objects.clone());
    env.variable("object", of.clone());
    env.variable("oldObject", of);
    match params {
        Params::None => {}
        Params::Unknown => env.variable("params", Type::Dyn),
        Params::Known(known) => {
            env.objects(known.objects.clone());
            env.variable("params", known.of.clone().unwrap_or(Type::Dyn));
        }
    }
    env.variable("variables", Type::named(VARIABLES));
    with_variables(env, variables)
}

/// Each variable may refer to those before it. One that does not check may be anything.
fn with_variables(env: Env, variables: &[Variable]) -> Env {
    let mut fields = Fields::new();
    let with = |fields: &Fields| {
        let mut env = env.clone();
        env.objects(Arc::new(Objects::from([(VARIABLES.into(), fields.clone())])));
        env
    };
    for variable in variables {
        let of =
            check(&variable.expression, &with(&fields)).map_or(Type::Dyn, |of| admission::variable_type(&of));
        fields.insert(variable.name.clone(), of);
    }
    with(&fields)
}
