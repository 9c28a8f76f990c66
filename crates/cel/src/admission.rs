//! What the expressions of admission policies, and the match conditions of webhooks, may refer to in addition to the object: the
//! request and its namespace. The API server evaluates these expressions, and a controller type-checks them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use smol_str::SmolStr;

use crate::env::{Env, Fields};
use crate::types::Type;

/// The object type that the variables of a policy are fields of.
pub const VARIABLES: &str = "kubernetes.variables";

/// Declares `request` and `namespaceObject`.
pub fn declare(env: &mut Env) {
    env.objects(Arc::clone(&OBJECTS));
    env.variable("request", Type::named("kubernetes.AdmissionRequest"));
    env.variable("namespaceObject", Type::named("kubernetes.Namespace"));
}

/// The type of a variable for later expressions: scalars, and lists and maps of scalars, keep their types; others are `dyn`.
pub fn variable_type(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(variable_type(element)),
        Type::Map(key, value) => Type::map(variable_type(key), variable_type(value)),
        Type::Object(_) | Type::Opaque(..) | Type::Type(_) => Type::Dyn,
        scalar => scalar.clone(),
    }
}

/// No schema describes these types.
static OBJECTS: LazyLock<Arc<BTreeMap<SmolStr, Fields>>> = LazyLock::new(|| {
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
            ("kind", Type::named("kubernetes.GroupVersionKind")), ("resource", Type::named("kubernetes.GroupVersionResource")),
            ("subResource", Type::String),
            ("requestKind", Type::named("kubernetes.GroupVersionKind")),
            ("requestResource", Type::named("kubernetes.GroupVersionResource")),
            ("requestSubResource", Type::String),
            ("name", Type::String), ("namespace", Type::String), ("operation", Type::String),
            ("userInfo", Type::named("kubernetes.UserInfo")), ("dryRun", Type::Bool), ("options", Type::Dyn),
        ]),
        object("kubernetes.NamespaceSpec", vec![("finalizers", texts())]),
        object("kubernetes.NamespaceCondition", vec![
            ("status", Type::String), ("type", Type::String), ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String), ("reason", Type::String),
        ]),
        object("kubernetes.NamespaceStatus", vec![
            ("conditions", Type::list(Type::named("kubernetes.NamespaceCondition"))), ("phase", Type::String),
        ]),
        object("kubernetes.NamespaceMetadata", vec![
            ("name", Type::String), ("generateName", Type::String), ("namespace", Type::String),
            ("labels", by_text(Type::String)), ("annotations", by_text(Type::String)), ("UID", Type::String),
            ("creationTimestamp", Type::Timestamp), ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp), ("generation", Type::Int), ("resourceVersion", Type::String),
            ("finalizers", texts()),
        ]),
        object("kubernetes.Namespace", vec![
            ("metadata", Type::named("kubernetes.NamespaceMetadata")), ("spec", Type::named("kubernetes.NamespaceSpec")),
            ("status", Type::named("kubernetes.NamespaceStatus")),
        ]),
    ];
    Arc::new(objects.into_iter().collect())
});
