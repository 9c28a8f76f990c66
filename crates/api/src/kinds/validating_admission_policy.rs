//! ValidatingAdmissionPolicies, whose expressions a controller checks.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::condition::Condition;
use crate::de::{null_default, skip};
use crate::{ObjectMeta, RawJson, resource};

/// An admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValidatingAdmissionPolicy {
    pub metadata: ObjectMeta,
    pub spec: RawJson,
    pub status: ValidatingAdmissionPolicyStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ValidatingAdmissionPolicyStatus {
    /// The generation of the spec that this is about.
    #[serde(skip_serializing_if = "skip::zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_checking: Option<TypeChecking>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What a check of expressions found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TypeChecking {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub expression_warnings: Vec<ExpressionWarning>,
}

/// An expression that does not fit the types.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExpressionWarning {
    pub field_ref: SmolStr,
    pub warning: SmolStr,
}

resource!(
    ValidatingAdmissionPolicy,
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    cluster
);
