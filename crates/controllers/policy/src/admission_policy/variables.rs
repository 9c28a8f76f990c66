//! What the expressions of a policy may refer to: the object, the request, its namespace and so on. Pure.

use std::sync::{Arc, LazyLock};

use flyball_cel::{Env, Fields, Type, check};
use smol_str::SmolStr;

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

/// The object type that the variables of a policy are fields of.
const VARIABLES: &str = "kubernetes.variables";

/// The environment of a policy's expressions when it is applied to objects of this type.
pub(crate) fn environment(object: &ObjectType, params: &Params, variables: &[Variable]) -> Env {
    let mut env = Env::default();
    env.objects(REQUEST.clone());
    env.variable("request", named("kubernetes.AdmissionRequest"));
    env.variable("namespaceObject", named("kubernetes.Namespace"));
    env.variable("authorizer", named("kubernetes.authorization.Authorizer"));
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
    env.variable("variables", named(VARIABLES));
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
        let of = check(&variable.expression, &with(&fields)).map_or(Type::Dyn, |of| remembered(&of));
        fields.insert(variable.name.clone(), of);
    }
    with(&fields)
}

/// The type of a variable for later expressions: scalars, and lists and maps of scalars, keep their types; others are `dyn`.
fn remembered(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(remembered(element)),
        Type::Map(key, value) => Type::map(remembered(key), remembered(value)),
        Type::Object(_) | Type::Opaque(..) | Type::Type(_) => Type::Dyn,
        scalar => scalar.clone(),
    }
}

fn named(name: &'static str) -> Type {
    Type::Object(SmolStr::new_static(name))
}

/// The request and the namespace, whose types no schema describes.
static REQUEST: LazyLock<Arc<Objects>> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let by_text = |value: Type| Type::map(Type::String, value);
    let object = |name: &'static str, fields: Vec<(&'static str, Type)>| {
        let fields = fields.into_iter().map(|(name, of)| (SmolStr::new_static(name), of)).collect();
        (SmolStr::new_static(name), fields)
    };
    #[rustfmt::skip]
    let objects = [
        object("kubernetes.GroupVersionKind", vec![
            ("group", Type::String), ("version", Type::String), ("kind", Type::String),
        ]),
        object("kubernetes.GroupVersionResource", vec![
            ("group", Type::String), ("version", Type::String), ("resource", Type::String),
        ]),
        object("kubernetes.UserInfo", vec![
            ("username", Type::String), ("uid", Type::String), ("groups", texts()), ("extra", by_text(texts())),
        ]),
        object("kubernetes.AdmissionRequest", vec![
            ("kind", named("kubernetes.GroupVersionKind")), ("resource", named("kubernetes.GroupVersionResource")),
            ("subResource", Type::String),
            ("requestKind", named("kubernetes.GroupVersionKind")),
            ("requestResource", named("kubernetes.GroupVersionResource")),
            ("requestSubResource", Type::String),
            ("name", Type::String), ("namespace", Type::String), ("operation", Type::String),
            ("userInfo", named("kubernetes.UserInfo")), ("dryRun", Type::Bool), ("options", Type::Dyn),
        ]),
        object("kubernetes.NamespaceSpec", vec![("finalizers", texts())]),
        object("kubernetes.NamespaceCondition", vec![
            ("status", Type::String), ("type", Type::String), ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String), ("reason", Type::String),
        ]),
        object("kubernetes.NamespaceStatus", vec![
            ("conditions", Type::list(named("kubernetes.NamespaceCondition"))), ("phase", Type::String),
        ]),
        object("kubernetes.NamespaceMetadata", vec![
            ("name", Type::String), ("generateName", Type::String), ("namespace", Type::String),
            ("labels", by_text(Type::String)), ("annotations", by_text(Type::String)), ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp), ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp), ("generation", Type::Int), ("resourceVersion", Type::String),
            ("finalizers", texts()),
        ]),
        object("kubernetes.Namespace", vec![
            ("metadata", named("kubernetes.NamespaceMetadata")), ("spec", named("kubernetes.NamespaceSpec")),
            ("status", named("kubernetes.NamespaceStatus")),
        ]),
    ];
    Arc::new(objects.into_iter().collect())
});
